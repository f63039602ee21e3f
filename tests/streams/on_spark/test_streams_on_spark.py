"""Topologies on Spark: cuts, crashes and restarts give what the engine gives, as does Kafka's driver."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.streams.campaign.at_random_on_spark import differences_on_spark
from tests.streams.in_batches import built_over, by_key, cuts_of, expected, rows_of
from tests.streams.programs import Program
from tests.streams.topologies import spread_by_value

from ottla.cli.main import main
from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.records.reader import Record
from ottla.streams import INT64, TEXT, ProcessingError, StreamsBuilder, Topology, TopologyError, query, run
from ottla.streams.connection import connection
from ottla.streams.on_spark import job
from ottla.streams.queries import Query
from ottla.streams.status import SparkInstance
from ottla.testing.reading import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Rig:
    """One application over its own topics, which may be run again and again."""

    def __init__(self, spark: Any, bootstrap: str, topics: Any, folder: Path) -> None:
        self.spark, self.bootstrap, self.topics = spark, bootstrap, topics
        self.names = {name: topics.new(1, retention_ms="-1") for name in ("a", "b", "c", "out")}
        self.application_id = f"app-{self.names['out']}"
        self.checkpoint = folder / self.names["out"]

    def built(self, name: str) -> Topology:
        return built_over(name, self.names)

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
            application_id=self.application_id,
            bootstrap=self.bootstrap,
            on="spark",
            spark=self.spark,
            checkpoint=str(self.checkpoint),
            **{"available_now": True, **more},
        )

    def results(self) -> list[tuple[str, str | None, int]]:
        """Key, value and time of the committed results."""
        found = read_topic(self.bootstrap, self.names["out"], at_least=0, isolation_level="read_committed", timeout=60)
        return [((r.key or b"").decode(), None if r.value is None else r.value.decode(), r.timestamp) for r in found]

    def cuts(self) -> list[dict[str, int]]:
        return cuts_of(self.checkpoint, self.names)


@pytest.fixture
def rig(spark: Any, bootstrap: str, topics: Any, tmp_path: Path) -> Rig:
    return Rig(spark, bootstrap, topics, tmp_path)


class Crash(RuntimeError):
    pass


def test_cuts_crashes_and_restarts_change_no_result(
    spark: Any, bootstrap: str, topics: Any, tmp_path: Path, at_length: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies once before a batch's results are written and once after, and starts with new workers' state."""
    short = [("streams_outer", "ab"), ("grace_left", "ab")]
    for name, topics_read in [*short, *([("window_count_suppress", "a")] if at_length else [])]:
        crashed_and_restarted(Rig(spark, bootstrap, topics, tmp_path), name, topics_read, monkeypatch)


def crashed_and_restarted(rig: Rig, name: str, topics_read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(7, topics_read, 48)
    rig.write(rows[:36])
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

    for crash, stores in ((before, "memory"), (after, "disk")):  # both find the state of the other
        monkeypatch.setattr(job, "write_batch", crash)
        with pytest.raises(Exception, match="Crash"):
            rig.run(rig.built(name), max_records=13, stores=stores)
    monkeypatch.setattr(job, "write_batch", whole)
    rig.write(rows[36:])
    rig.run(rig.built(name), max_records=13)
    assert len(rig.cuts()) >= 4
    assert by_key(rig.results()) == by_key(expected(rig.built(name), rig.names, rows, rig.cuts()))


def test_four_levels_give_what_the_engine_gives_for_the_same_batches_through_a_crash_and_a_restart(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    program: Program = [
        ("stream", 0, [], "a"), ("table", 0, [], "b"), ("aggregate", 0, [0], ""), ("foreign", 1, [2, 1], ""),
        ("to_stream", 0, [3], ""), ("to", 0, [4], "out"), ("windowed", 3, [0], ""), ("to", 0, [6], "sessions"),
    ]  # fmt: skip
    assert differences_on_spark(program, rows_of(5, "ab", 16), 11, spark, bootstrap, tmp_path) == []


def test_a_foreign_key_join_and_a_global_table_end_with_the_rows_that_the_engine_ends_with(rig: Rig) -> None:
    """In the order of results the levels differ from one task; the newest row of each key does not."""
    rows = rows_of(3, "ab", 24)
    rig.write(rows)
    rig.run(rig.built("foreign_left"), max_records=9)
    instance = SparkInstance(rig.application_id, str(rig.checkpoint / "ottla-state"), connection(rig.bootstrap))
    shown = {(s.metric.name, s.labels): s.value for s in instance.metrics(lambda places: dict.fromkeys(places, 24))}
    assert shown["kafka_streams_client_running", ()] == 1
    processed = sum(value for (name, _), value in shown.items() if name == "kafka_streams_stream_task_process_total")
    assert processed >= len(rows)
    assert instance.status(lambda places: dict.fromkeys(places, 0))["lag"] == 0
    with pytest.raises(TopologyError, match=r"ask by `ottla streams query APP\.py counts"):
        instance.ask("counts", lambda _: Query(), lambda places: {})
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


def test_a_failing_function_ends_a_run_letters_let_the_next_go_on_and_a_reset_begins_anew(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
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
    rig.run(counting(1), on_error="dead-letter", dead_letter=rig.names["c"])
    assert [value for _, value, _ in rig.results()] == ["1", "2"]
    (letter,) = read_topic(rig.bootstrap, rig.names["c"], at_least=1, isolation_level="read_committed", timeout=60)
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"x", 2)
    assert dict(letter.headers)["__streams.errors.offset"] == b"2"

    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream(rig.names["a"]).group_by_key().count(store="others").to_stream().to(rig.names["out"], value=INT64)
    with pytest.raises(TopologyError, match="needs a new application id, or a reset: the store counts is gone"):
        rig.run(builder.build())

    application = ["--application-id", rig.application_id, "--checkpoint", str(rig.checkpoint), "-b", rig.bootstrap]
    capsys.readouterr()
    assert main(["streams", "status", *application, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (part,) = told["sub_topologies"]
    assert (part["records"], part["results"], part["stream_time"]) == (3, 2, 2)
    assert (told["stores"], told["lag"], list(told["dropped"].values())) == ({"counts": 1}, {rig.names["a"]: 0}, [1])

    answer = query(
        counting(1),
        "counts",
        application_id=rig.application_id,
        bootstrap=rig.bootstrap,
        checkpoint=str(rig.checkpoint),
    )
    assert ([(row.key, row.value) for row in answer.rows], answer.age.lag) == ([("k", 2)], 0)

    assert main(["streams", "reset", *application, "--to", "1"]) == 0
    assert "begin at 1" in capsys.readouterr().out
    assert rig.cuts()
    assert main(["streams", "reset", *application, "--to", "1", "--execute"]) == 0
    assert main(["streams", "status", *application]) == 1
    assert "there is no state of an application" in capsys.readouterr().err
    rig.run(counting(0))
    assert [value for _, value, _ in rig.results()] == ["1", "2", "1", "2"]


def test_topics_that_match_a_pattern_are_read_and_those_that_appear_later_from_their_beginnings(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = rig.names["out"] + "-in-"

    def counting() -> Topology:
        builder = StreamsBuilder(key=TEXT, value=TEXT)
        counts = builder.stream(re.compile(re.escape(mark) + "[0-9]+")).group_by_key().count(store="counts")
        counts.to_stream().map_values(str).merge(builder.stream(rig.names["a"])).to(rig.names["out"])
        return builder.build()

    def fill(number: int, *keys: str, partitions: int = 1) -> None:
        rig.topics.admin.create_topic(f"{mark}{number}", partitions, configs={"retention.ms": "-1"})
        rig.topics.fill(f"{mark}{number}", 0, [Record(0, number, key.encode(), b"v") for key in keys])

    def written(at_least: int) -> dict[str, list[Any]]:
        found = read_topic(
            rig.bootstrap, rig.names["out"], at_least=at_least, isolation_level="read_committed", timeout=120
        )
        return by_key([((r.key or b"").decode(), (r.value or b"").decode()) for r in found])

    with pytest.raises(TopologyError, match=r"no topic matches .*: make the first one"):
        rig.run(counting())
    fill(1, "k", "j", "k")
    stop = threading.Event()
    thread = threading.Thread(target=rig.run, args=(counting(),), kwargs={"available_now": False, "stop": stop})
    thread.start()
    try:
        assert written(3) == {"k": [("1",), ("2",)], "j": [("1",)]}
        fill(2, "k")
        assert written(4)["k"] == [("1",), ("2",), ("3",)]
    finally:
        stop.set()
        thread.join(60)
    fill(30, "k", "j")
    rig.write([("a", "named", "x", 0)])
    rig.run(counting())
    assert written(7) == {"k": [("1",), ("2",), ("3",), ("4",)], "j": [("1",), ("2",)], "named": [("x",)]}

    application = ["--application-id", rig.application_id, "--checkpoint", str(rig.checkpoint), "-b", rig.bootstrap]
    capsys.readouterr()
    assert main(["streams", "status", *application, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["lag"] == dict.fromkeys(
        [rig.names["a"], *(f"{mark}{number}" for number in (1, 2, 30))], 0
    )
    answer = query(
        counting(), "counts", application_id=rig.application_id, bootstrap=rig.bootstrap, checkpoint=str(rig.checkpoint)
    )
    assert {row.key: row.value for row in answer.rows} == {"k": 4, "j": 2}

    fill(4, "k", partitions=2)
    with pytest.raises(TopologyError, match=rf"different numbers of partitions .*{mark}4 has 2"):
        rig.run(counting())


def test_a_partitioner_chooses_the_partitions_of_results_and_the_keys_choose_others(rig: Rig) -> None:
    spread = rig.topics.new(3, retention_ms="-1")
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    read = builder.stream(rig.names["a"])
    read.to(spread, partitioner=spread_by_value)
    read.to(rig.names["out"])
    keys = [f"k{at}" for at in range(9)]
    rig.write([("a", "k", value, 0) for value in ("one", "all", "none")] + [("a", key, "by key", 0) for key in keys])
    rig.run(builder.build())
    found = read_topic(rig.bootstrap, spread, at_least=0, isolation_level="read_committed", timeout=60)
    assert sorted((record.value, record.partition) for record in found if record.value != b"by key") == [
        (b"all", 0), (b"all", 1), (b"all", 2), (b"one", 2),
    ]  # fmt: skip
    assert {record.key: record.partition for record in found if record.value == b"by key"} == {
        key.encode(): murmur2_partitioner(key.encode(), range(3), 3) for key in keys
    }
    assert len(rig.results()) == 3 + len(keys)


def test_a_wish_to_stop_ends_a_run_and_two_runs_of_one_application_are_refused(rig: Rig) -> None:
    ended: list[bool] = []

    def work() -> None:
        rig.run(rig.built("count"), available_now=False)
        ended.append(True)

    rig.write([("a", "k", "1", 0)])
    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = read_topic(rig.bootstrap, rig.names["out"], at_least=1, isolation_level="read_committed", timeout=120)
        assert found[0].value == b"1"
        with pytest.raises(TopologyError, match="is running already, or has not given its state up yet"):
            rig.run(rig.built("count"))
    finally:
        application = ["--application-id", rig.application_id, "--checkpoint", str(rig.checkpoint)]
        assert main(["streams", "stop", *application]) == 0
        thread.join(60)
    assert ended == [True]
