"""The names that programs need can be imported from the top of the package, and importing it loads no other module."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ottla.client
from ottla.client import aio
from ottla.client.aio import consumer as aio_consumer
from ottla.client.aio import producer as aio_producer
from ottla.client.blocking import producer as blocking_producer


def test_every_name_at_the_top_is_that_of_its_module():
    assert {name for name in ottla.client._PLACES if getattr(ottla.client, name).__name__ != name} == set()
    assert ottla.client.Producer is blocking_producer.Producer
    assert set(ottla.client._PLACES) <= set(dir(ottla.client))


def test_the_asyncio_face_is_that_of_its_modules():
    assert (aio.Producer, aio.Consumer) == (aio_producer.Producer, aio_consumer.Consumer)


@pytest.mark.parametrize("module", [ottla.client, aio])
def test_a_name_that_is_not_there_is_an_attribute_error(module: object):
    with pytest.raises(AttributeError, match="'Streams'"):
        _ = module.Streams


def test_the_package_alone_imports_none_of_its_modules():
    program = "import sys, ottla.client; print([name for name in sys.modules if name.startswith('ottla.client.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_everything_that_is_public_comes_with_a_star():
    program = "from ottla.client import *; print(Producer, Consumer, Admin, ProducerSettings, ErrorCode, aio.Producer)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "blocking.producer.Producer" in done.stdout
    assert set(ottla.client.__all__) == {*ottla.client._PLACES, "aio"}
