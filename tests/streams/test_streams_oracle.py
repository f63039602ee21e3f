"""Topologies give what Kafka's own TopologyTestDriver gives: the same text, and the same records in the same order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.streams.differences import MEASURED, Measured, different
from tests.streams.topologies import TOPOLOGIES, built

from ottla.streams import Topology, TopologyTest

LIBS = Path(os.environ.get("OTTLA_STREAMS_JARS", Path(__file__).resolve().parents[2] / ".cache" / "streams" / "libs"))
pytestmark = pytest.mark.skipif(
    not (LIBS / "kafka-streams-test-utils-4.3.1.jar").exists() or not shutil.which("javac"),
    reason="Apache Kafka's jars are not here: those of Streams",
)
Row = tuple[str, str | None, str | None, int]


class Oracle:
    """Kafka's test driver in a Java process that answers line by line."""

    def __init__(self, folder: Path) -> None:
        source = Path(__file__).with_name("StreamsOracle.java")
        subprocess.run(["javac", "-nowarn", "-cp", f"{LIBS}/*", "-d", folder, source], check=True)
        quick = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        self._process = subprocess.Popen(
            ["java", *quick, "-cp", f"{folder}:{LIBS}/*", "StreamsOracle"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
        )  # fmt: skip

    def ask(self, topology: str, rows: list[Row]) -> Any:
        """The topology's text, and the records that it wrote."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"topology": topology, "input": rows}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Kafka's test driver."""
    started = Oracle(tmp_path_factory.mktemp("oracle"))
    yield started
    started.close()


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["k", "j", "k", None]),
        st.sampled_from(["1", "2", "12", "3", None]),
        st.integers(0, 60) | st.integers(0, 12),
    ),
    max_size=25,
)


def ours(name: str, rows: list[Row]) -> list[list[Any]]:
    """The records that our engine writes for the same input."""
    return written(built(name), rows)


def written(topology: Topology, rows: Sequence[Row]) -> list[list[Any]]:
    """The records that a topology writes to `out`."""
    test = TopologyTest(topology)
    for row in rows:
        test.pipe_input(*row)
    return [[record.key, record.value, record.timestamp] for record in test.read_outputs("out")]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_is_described_as_kafka_describes_it(oracle: Oracle, name: str) -> None:
    assert built(name).describe() == oracle.ask(name, [])["describe"]


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_a_topology_writes_what_kafkas_driver_writes(oracle: Oracle, name: str, rows: list[Row]) -> None:
    topics = built(name).topics()
    rows = [row for row in rows if row[0] in topics]
    assert ours(name, rows) == oracle.ask(name, rows)["outputs"]


@pytest.mark.parametrize("each", MEASURED, ids=lambda each: each.name)
def test_a_difference_is_the_one_that_the_page_tells(oracle: Oracle, each: Measured) -> None:
    assert written(different(each.name), each.rows) == each.ours
    assert oracle.ask(each.name, list(each.rows))["outputs"] == each.kafkas
