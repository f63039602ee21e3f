"""Topologies on Spark: cuts, crashes and restarts give what the engine gives, as does Kafka's driver."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.streams.topologies import TOPOLOGIES

from ottla.records.reader import Record
from ottla.streams import INT64, TEXT, ProcessingError, StreamsBuilder, Topology, TopologyError, TopologyTest, run
from ottla.streams.graph import SinkNode
from ottla.streams.on_spark import job
from ottla.streams.on_spark.notes import Notes
from ottla.streams.on_spark.places import open_files
from ottla.testing.reading import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Renamed(StreamsBuilder):
    """Builds over topics of other names."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__(key=TEXT, value=TEXT)
        self._names = names

    def stream(self, topic: Any, **more: Any) -> Any:
        return super().stream(self._names[topic], **more)

    def table(self, topic: str, **more: Any) -> Any:
        return super().table(self._names[topic], **more)

    def global_table(self, topic: str, **more: Any) -> Any:
        return super().global_table(self._names[topic], **more)

    def build(self) -> Topology:
        topology = super().build()
        for node in topology.nodes.values():
            if isinstance(node, SinkNode) and not node.repartition and node.topic in self._names:
                node.topic = self._names[str(node.topic)]
        return topology


class Rig:
    """One application over its own topics, which may be run again and again."""

    def __init__(self, spark: Any, bootstrap: str, topics: Any, folder: Path) -> None:
        self.spark, self.bootstrap, self.topics = spark, bootstrap, topics
        self.names = {name: topics.new(1) for name in ("a", "b", "c", "out")}
        self.checkpoint = folder / self.names["out"]

    def built(self, name: str) -> Topology:
        builder = Renamed(self.names)
        TOPOLOGIES[name](builder)
        return builder.build()

    def write(self, rows: list[Any]) -> None:
        for name in "abc":
            mine = [
                Record(0, time, key.encode(), None if value is None else value.encode())
                for topic, key, value, time in rows
                if topic == name
            ]
            if mine:
                self.topics.fill(self.names[name], 0, mine)

    def run(self, topology: Topology, **more: Any) -> None:
        run(
            topology,
            application_id=f"app-{self.names['out']}",
            bootstrap=self.bootstrap,
            on="spark",
            spark=self.spark,
            checkpoint=str(self.checkpoint),
            available_now=True,
            **more,
        )

    def results(self) -> list[tuple[str, str | None, int]]:
        """Key, value and time of the committed results."""
        found = read_topic(self.bootstrap, self.names["out"], at_least=0, isolation_level="read_committed", timeout=60)
        return [((r.key or b"").decode(), None if r.value is None else r.value.decode(), r.timestamp) for r in found]

    def cuts(self) -> list[dict[str, int]]:
        """The ends of the batches, by the names of the topics in the topology."""
        files = sorted(
            (p for p in (self.checkpoint / "offsets").iterdir() if p.name.isdecimal()), key=lambda p: int(p.name)
        )
        ends = [json.loads(file.read_text().splitlines()[2]) for file in files]
        return [{name: end.get(topic, {}).get("0", 0) for name, topic in self.names.items()} for end in ends]


def expected(topology: Topology, names: dict[str, str], rows: list[Any], cuts: list[dict[str, int]]) -> list[Any]:
    """The records that the engine writes for these batches, where the earliest first record of a topic is next."""
    test, queues = TopologyTest(topology), {name: [row for row in rows if row[0] == name] for name in "abc"}
    at = dict.fromkeys("abc", 0)
    for ends in cuts:
        while heads := [(queues[n][at[n]][3], names[n], n) for n in "abc" if at[n] < ends[n]]:
            name = min(heads)[2]
            _, key, value, time = queues[name][at[name]]
            test.pipe_input(names[name], key, value, time)
            at[name] += 1
    return [(record.key, record.value, record.timestamp) for record in test.read_outputs(names["out"])]


def by_key(records: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, *rest in records:
        found.setdefault(key, []).append(tuple(rest))
    return found


def rows_of(seed: int, topics: str, count: int) -> list[Any]:
    draw = random.Random(seed)
    return [
        (
            draw.choice(topics),
            draw.choice("kj"),
            draw.choice(["1", "2", "12", None]),
            max(0, at // 2 + draw.randint(-4, 4)),
        )
        for at in range(count)
    ]


@pytest.fixture
def rig(spark: Any, bootstrap: str, topics: Any, tmp_path: Path) -> Rig:
    return Rig(spark, bootstrap, topics, tmp_path)


class Crash(RuntimeError):
    pass


@pytest.mark.parametrize(("name", "topics_read"), [("streams_outer", "ab"), ("window_count_suppress", "a")])
def test_cuts_crashes_and_restarts_change_no_result(
    rig: Rig, name: str, topics_read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies once before a batch's results are written and once after, and starts with new workers' state."""
    rows = rows_of(7, topics_read, 60)
    rig.write(rows[:40])
    whole = job.write_batch

    def before(results: Any, batch: int, *more: Any) -> None:
        if batch == 1:
            results.count()
            raise Crash("before the write")
        whole(results, batch, *more)

    def after(results: Any, batch: int, *more: Any) -> None:
        whole(results, batch, *more)
        if batch == 2:
            raise Crash("after the write")

    for crash in (before, after):
        monkeypatch.setattr(job, "write_batch", crash)
        with pytest.raises(Exception, match="Crash"):
            rig.run(rig.built(name), max_records=13)
    monkeypatch.setattr(job, "write_batch", whole)
    rig.write(rows[40:])
    rig.run(rig.built(name), max_records=13)
    assert len(rig.cuts()) >= 4
    assert by_key(rig.results()) == by_key(expected(rig.built(name), rig.names, rows, rig.cuts()))


def test_a_foreign_key_join_and_a_global_table_end_with_the_rows_that_the_engine_ends_with(rig: Rig) -> None:
    """In the order of results the levels differ from one task; the newest row of each key does not."""
    rows = rows_of(3, "ab", 40)
    rig.write(rows)
    rig.run(rig.built("foreign_left"), max_records=9)
    last = {key: found[-1][0] for key, found in by_key(rig.results()).items()}
    whole = expected(rig.built("foreign_left"), rig.names, rows, rig.cuts())
    assert last == {key: found[-1][0] for key, found in by_key(whole).items()}


def test_a_global_table_is_joined_as_it_was_when_the_batch_was_first_run(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.write([("b", "k", "old", 0), ("a", "k", "1", 5)])
    whole = job.write_batch

    def crash(*_: Any) -> None:
        raise Crash

    monkeypatch.setattr(job, "write_batch", crash)
    with pytest.raises(Exception, match="Crash"):
        rig.run(rig.built("stream_global"))
    monkeypatch.setattr(job, "write_batch", whole)
    rig.write([("b", "k", "new", 0), ("a", "k", "2", 6)])
    rig.run(rig.built("stream_global"))
    assert rig.results() == [("k", "1,old", 5), ("k", "2,new", 6)]


def test_a_failing_function_ends_the_run_with_its_sentence_and_a_mended_one_goes_on(rig: Rig) -> None:
    def counting(first: int) -> Topology:
        builder = StreamsBuilder(key=TEXT, value=TEXT)
        lines = builder.stream(rig.names["a"]).map_values(lambda line: line[first:], name="cut")
        counts = lines.filter(lambda _, line: line[0] != "-").group_by_key().count(store="counts")
        counts.to_stream().map_values(str).to(rig.names["out"])
        return builder.build()

    rig.write([("a", "k", "one", 0), ("a", "k", "two", 1)])
    rig.run(counting(0))
    rig.write([("a", "k", "x", 2)])
    with pytest.raises(ProcessingError, match=rf"failed for the record at {rig.names['a']}-0@2: IndexError"):
        rig.run(counting(1))
    rig.run(counting(0))
    assert [value for _, value, _ in rig.results()] == ["1", "2", "3"]

    notes = Notes(open_files(f"{rig.checkpoint.as_uri()}/ottla-state")).application()
    assert notes is not None
    assert notes.shape.stores == {"counts": "a key-value store of text to int64"}
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream(rig.names["a"]).group_by_key().count(store="others").to_stream().to(rig.names["out"], value=INT64)
    with pytest.raises(TopologyError, match="needs a new application id, or a reset: the store counts is gone"):
        rig.run(builder.build())
