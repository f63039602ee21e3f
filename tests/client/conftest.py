"""The brokers for the tests of client and command line: one of ours in this process, and Apache Kafka."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import TestBroker

_names = itertools.count()


@pytest.fixture(scope="session")
def ours() -> Iterator[str]:
    """The address of a broker of ours."""
    with TestBroker({"offsets.topic.num.partitions": "5"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def apaches(kafka_libs: Path) -> Iterator[str]:
    """The address of Apache Kafka; once started it serves the test files that follow too."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compat"))
    from apache_kafka import ApacheKafka

    os.environ.setdefault("OTTLA_KAFKA_JARS", str(kafka_libs))
    with ApacheKafka() as kafka:
        yield kafka.bootstrap


@pytest.fixture(params=["ours", pytest.param("apaches", marks=pytest.mark.kafka)], ids=["ottla", "apache"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a broker of either kind."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def name() -> str:
    """A name for a topic or group that no other test uses."""
    return f"c{os.getpid()}-{next(_names)}"
