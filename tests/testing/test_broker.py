"""Starts of a TestBroker: the options it takes, and what is left where one failed or came twice."""

import threading
from pathlib import Path

import pytest

from ottla.config.option import ConfigError
from ottla.testing import TestBroker


def test_a_misspelt_option_is_refused_with_the_one_that_was_meant():
    with pytest.raises(ConfigError, match=r"unknown option num.partition \(did you mean num.partitions\?\)"):
        TestBroker({"num.partition": "4"}).start()


def test_a_listener_that_asks_for_encryption_is_refused():
    with pytest.raises(ConfigError, match=r"listener SSL: ssl\.keystore\.location is not set"):
        TestBroker({"listeners": "SSL://127.0.0.1:0"}).start()


def test_a_broker_that_runs_is_not_started_again(tmp_path: Path):
    before = threading.active_count()
    broker = TestBroker(directory=tmp_path / "data").start()
    address = broker.bootstrap_servers
    with broker.start() as same:
        assert same.bootstrap_servers == address
    assert threading.active_count() == before


def test_a_broker_that_could_not_start_is_not_running_and_starts_once_it_can(tmp_path: Path):
    directory = tmp_path / "data"
    second = TestBroker(directory=directory)
    with TestBroker(directory=directory), pytest.raises(Exception, match="in use"):
        second.start()
    with pytest.raises(RuntimeError, match="not running"):
        print(second.bootstrap_servers)
    with second:
        assert second.bootstrap_servers
