"""A standalone master with two workers, each with ottla from the wheel in a Python environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from standalone import (
    OTHER_MINOR,
    PYTHON,
    QUICK_START,
    WITHOUT_OTTLA,
    Standalone,
    bare_environment,
    environment,
)
from tests.ports import free_port

import ottla
from ottla.testing import TestBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

JOBS = Path(__file__).with_name("standalone_jobs.py")
ROWS = 4000
SETTINGS = {
    "spark.pyspark.python": PYTHON,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class Driver:
    """A process with a session on the cluster, in an environment of its own too."""

    def __init__(self, master: str, programs: Path, log: Path) -> None:
        settings = [argument for pair in SETTINGS.items() for argument in ("--conf", "=".join(pair))]
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(programs / PYTHON), str(JOBS), "--master", master, *settings],
                env=bare_environment([programs]),
                cwd=log.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.answer() == "ready"

    def run(self, job: str, **arguments: object) -> Any:
        self.say({"job": job, **arguments})
        return self.answer()

    def say(self, what: object) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-3000:]
        return json.loads(line)

    def stop(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, eventually: Callable[[Callable[[], bool]], None]
) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("standalone")
    one = Standalone(folder, eventually)
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="module")
def driver(cluster: Standalone) -> Iterator[Driver]:
    programs = environment(cluster.folder / "driver", cluster.wheel)
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
