"""A standalone master with two workers, each with ottla from the wheel in a Python environment of its own."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from standalone import OTHER_MINOR, WITHOUT_OTTLA, Standalone, environment
from standalone_drivers import Driver, Loader
from tests.conftest import NO_HDFS
from tests.lake.campaign.places import DeltaS3, ParquetHdfs, Place, PlainFiles
from tests.lake.campaign.processes import until
from tests.lake.campaign.watcher import Watcher
from tests.lake.store_rigs import hdfs_jars
from tests.ports import free_port
from tests.spark_rig import Topics

import ottla
from ottla.testing import TestBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 4000


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaS3]:
    one = DeltaS3(tmp_path_factory.mktemp("s3"))
    yield one
    one.close()


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[ParquetHdfs]:
    if hdfs_jars() is None:
        pytest.skip(NO_HDFS)
    one = ParquetHdfs(tmp_path)
    yield one
    one.close()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, eventually: Callable[[Callable[[], bool]], None], s3: DeltaS3
) -> Iterator[Standalone]:
    """A cluster whose workers find S3 by the environment of their machine."""
    folder = tmp_path_factory.mktemp("standalone")
    one = Standalone(folder, eventually, s3.environment())
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="module")
def programs(cluster: Standalone) -> Path:
    """The programs in the environment of the drivers."""
    return environment(cluster.folder / "driver", cluster.wheel)


@pytest.fixture(scope="module")
def driver(cluster: Standalone, programs: Path) -> Iterator[Driver]:
    one = Driver(cluster.master, programs, cluster.folder / "driver.log")
    yield one
    one.stop()


@pytest.fixture(scope="module")
def filled(driver: Driver, bootstrap: str, topics) -> str:  # type: ignore[no-untyped-def]
    """A topic written by executors."""
    topic: str = topics.new(4)
    assert driver.run("write", bootstrap=bootstrap, topic=topic, rows=ROWS) == [ROWS, ROWS]
    return topic


def test_each_process_has_ottla_from_the_wheel_in_its_own_environment(cluster: Standalone, driver: Driver) -> None:
    folders = {Path(each) for each in driver.run("where")}
    environments = {"worker-1", "worker-2", "driver"}
    assert {folder.relative_to(cluster.folder).parts[0] for folder in folders} == environments


def test_the_probe_finds_both_executors_in_order(driver: Driver, bootstrap: str, tmp_path: Path) -> None:
    assert driver.run("probe", bootstrap=bootstrap, writable=str(tmp_path)) == 2


def test_a_stream_copies_a_topic(driver: Driver, bootstrap: str, filled: str, tmp_path: Path) -> None:
    assert driver.run("stream", bootstrap=bootstrap, topic=filled, folder=str(tmp_path)) == [3, ROWS, ROWS]


def test_the_probe_tells_of_a_python_without_ottla(driver: Driver, bootstrap: str) -> None:
    sentence = driver.run("probe", bootstrap=bootstrap, python=WITHOUT_OTTLA)
    assert sentence == (
        f"the executor on 127.0.0.1: No module named 'ottla'. Install ottla[spark]=={ottla.__version__} into the "
        "Python of every executor, or name another Python with spark.pyspark.python"
    )


def test_the_probe_tells_of_a_python_of_another_minor(driver: Driver, bootstrap: str) -> None:
    ours, theirs = f"3.{sys.version_info.minor}", f"3.{sys.version_info.minor + 1}"
    assert driver.run("probe", bootstrap=bootstrap, python=OTHER_MINOR) == (
        f"the executor on 127.0.0.1 runs Python {theirs}, the driver {ours}. "
        f"Name a Python {ours} with spark.pyspark.python"
    )


def test_the_probe_tells_of_a_python_that_is_not_there(driver: Driver, bootstrap: str) -> None:
    sentence = driver.run("probe", bootstrap=bootstrap, python="no-such-python")
    assert sentence.startswith("the executor on 127.0.0.1 cannot run 'no-such-python' as its Python.")


def test_the_probe_tells_of_an_advertised_address_that_executors_do_not_reach(driver: Driver) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = {"listeners": f"PLAINTEXT://{address}", "advertised.listeners": "PLAINTEXT://127.0.0.1:1"}
    with TestBroker(options):
        sentence = driver.run("probe", bootstrap=address)
    assert "cannot be reached at the address that it advertises: cannot connect to 127.0.0.1:1" in sentence
    assert sentence.endswith("Set advertised.listeners of the broker to a name and a port that executors reach")


def test_the_probe_tells_of_brokers_that_executors_do_not_reach(driver: Driver) -> None:
    sentence = driver.run("probe", bootstrap="127.0.0.1:1")
    assert "no broker can be reached: cannot connect to 127.0.0.1:1: Connection refused." in sentence


def test_the_probe_tells_what_the_caller_found(driver: Driver, bootstrap: str) -> None:
    sentence = driver.run("probe", bootstrap=bootstrap, writable="/no/such/folder")
    assert sentence.endswith(": /no/such/folder is closed")


def test_a_lake_is_whole_when_a_worker_is_killed_during_its_load(
    cluster: Standalone, driver: Driver, bootstrap: str, filled: str, tmp_path: Path
) -> None:
    driver.say({"job": "load", "bootstrap": bootstrap, "topic": filled, "folder": str(tmp_path), "rounds_of": 500})
    assert driver.answer() == "a round is done"
    cluster.kill_worker()
    driver.say("go on")
    rounds, rows, adds_up = driver.answer()
    assert (rows, adds_up) == (ROWS, True)
    assert rounds > 2
    values = [value for path in tmp_path.rglob("*.parquet") for value in pq.read_table(path)["value"].to_pylist()]
    assert sorted(values) == sorted(b"value-%d" % number for number in range(ROWS))
    assert driver.run("probe", bootstrap=bootstrap) == 1


def test_another_worker_takes_up_where_one_was_killed(
    cluster: Standalone, driver: Driver, bootstrap: str, filled: str, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    cluster.add_worker()
    eventually(lambda: driver.run("probe", bootstrap=bootstrap) == 2)
    assert driver.run("read", bootstrap=bootstrap, topic=filled) == [ROWS, ROWS]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """S3 always, HDFS with --long only: `make lake-campaign` kills loaders there, too."""
    if "where" in metafunc.fixturenames:
        metafunc.parametrize("where", ["s3", "hdfs"] if metafunc.config.getoption("--long") else ["s3"])


def test_a_lake_is_whole_when_its_driver_and_then_a_worker_are_killed(
    request: pytest.FixtureRequest, cluster: Standalone, programs: Path, topics: Topics, tmp_path: Path, where: str
) -> None:
    place: Place = request.getfixturevalue(where)
    topic = topics.new(2)
    for partition in (0, 1):
        topics.count(topic, partition, ROWS // 2)
    everything = [(partition, at, b"%d" % at) for partition in (0, 1) for at in range(ROWS // 2)]
    arguments = [topic, "--to", place.url("bytes"), "-b", topics.bootstrap, *place.options("bytes")]

    def start(name: str) -> Loader:
        made = Loader([*arguments, "--max-offsets", "400"], cluster.master, programs, place, tmp_path / name)
        until(lambda: made.rounds > 0 or made.status is not None, "a round")
        assert made.status is None, made.log.read_text()
        return made

    with watched(place) as faults:
        start("first.log").kill(everything=True)
        seen = rows_in(place, topic)
        assert 400 <= len(seen) < len(everything)
        assert sorted(set(seen)) == seen
        assert set(seen) < set(everything)
        second = start("second.log")
        cluster.kill_worker()
        assert second.wait() == 0, second.log.read_text()
    assert faults == []
    assert rows_in(place, topic) == everything
    assert "adds up" in second.said()
    cluster.add_worker()


@contextlib.contextmanager
def watched(place: Place) -> Iterator[list[str]]:
    """Look at plain Parquet files during a block; yield the findings. A reader of Delta sees whole commits."""
    if not isinstance(place, PlainFiles):
        yield []
        return
    with Watcher(place, "bytes", random.Random(11)) as watcher:
        yield watcher.faults
    assert watcher.looks > 1


def rows_in(place: Place, topic: str) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every visible row, sorted."""
    columns = ("partition", "offset", "value")
    batches = [batch.select(columns).to_pydict() for batch in place.batches("bytes", topic)]
    return sorted(row for batch in batches for row in zip(*batch.values(), strict=True))
