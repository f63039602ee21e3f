"""The brokers that client and command line are tried against: one of ours in this process, and Apache Kafka."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import TestBroker

_names = itertools.count()


@pytest.fixture(scope="session", params=["ottla", pytest.param("apache", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a broker listens, of either kind."""
    if request.param == "ottla":
        with TestBroker({"offsets.topic.num.partitions": "5"}) as broker:
            yield broker.bootstrap_servers
        return
    libs = request.getfixturevalue("kafka_libs")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compat"))
    from apache_kafka import ApacheKafka

    os.environ.setdefault("OTTLA_KAFKA_JARS", str(libs))
    with ApacheKafka() as kafka:
        yield kafka.bootstrap


@pytest.fixture
def name() -> str:
    """Of a topic or group that no other test uses."""
    return f"c{os.getpid()}-{next(_names)}"
