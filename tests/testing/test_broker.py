"""How a TestBroker is started: which options it takes."""

import pytest

from ottla.config.option import ConfigError
from ottla.testing import TestBroker


def test_a_misspelt_option_is_refused_with_the_one_that_was_meant():
    with pytest.raises(ConfigError, match=r"unknown option num.partition \(did you mean num.partitions\?\)"):
        TestBroker({"num.partition": "4"}).start()


def test_a_listener_that_asks_for_encryption_is_refused():
    with pytest.raises(ConfigError, match="asks for SSL"):
        TestBroker({"listeners": "SSL://127.0.0.1:0"}).start()
