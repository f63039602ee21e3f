"""One Spark session and one broker for all tests of the pipeline: a session takes ten seconds to start.

OTTLA_TEST_BOOTSTRAP names another cluster to run the same tests against, for example Apache Kafka.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.reader import Record, read_run
from ottla.testing import TestBroker


class Topics:
    """Makes topics and fills them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = Cluster(bootstrap)
        self.admin = Admin(bootstrap)
        self._names = (f"t{os.getpid()}-{number}" for number in itertools.count())

    def new(self, partitions: int = 1, **configs: str) -> str:
        name = next(self._names)
        self.admin.create_topic(name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        return name

    def fill(self, topic: str, partition: int, records: list[Record], codec: Codec = Codec.NONE) -> int:
        """Produce one batch; return the offset of its first record."""
        return self.cluster.produce(topic, partition, build_batch(records, codec=codec)).base_offset

    def count(
        self, topic: str, partition: int, count: int, *, start: int = 0, time_ms: int = 1_700_000_000_000
    ) -> None:
        """Records with the values start, start + 1, ..., one millisecond apart."""
        records = [Record(0, time_ms + at, b"k%d" % at, b"%d" % at) for at in range(start, start + count)]
        self.fill(topic, partition, records)

    def read(self, topic: str) -> list[Record]:
        """All records of a topic, partition by partition."""
        found: list[Record] = []
        for partition, end in self.cluster.list_offsets(self.cluster.partitions(topic), -1).items():
            for piece in self.cluster.fetch_range(topic, partition.partition, 0, end.offset):
                found += read_run(piece.records)
        return found


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with TestBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture(scope="session")
def spark_session():  # type: ignore[no-untyped-def]
    from ottla.spark import session

    made = session("tests", "local[2]")
    yield made
    made.stop()


@pytest.fixture
def spark(spark_session):  # type: ignore[no-untyped-def]
    """The session, made active in this thread again after tests with their own sessions."""
    from ottla.spark.session import register_source

    register_source(spark_session)
    return spark_session


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until something holds; fail after a minute and a half, which a busy machine may need."""

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < deadline, "it did not come about in 120 s"
            time.sleep(0.05)

    return wait
