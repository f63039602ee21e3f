"""Kafka Streams' operations as a user meets them, in TopologyTest."""

from __future__ import annotations

from typing import Any

import pytest
from tests.streams.topologies import spread_by_value

from ottla.streams import (
    INT64,
    TEXT,
    JoinWindows,
    ProcessingError,
    Record,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    TopologyTest,
    Windowed,
)


def test_words_are_counted_as_in_kafkas_example() -> None:
    builder = StreamsBuilder()
    words = builder.stream("lines", value=TEXT).flat_map_values(str.split, value=TEXT)
    words.group_by(lambda _, word: word).count(store="counts").to_stream().to("totals")
    test = TopologyTest(builder.build())
    test.pipe_input("lines", None, "so it is so", timestamp=7)
    assert test.read_records("totals") == [("so", 1), ("it", 1), ("is", 1), ("so", 2)]
    assert test.rows("counts") == {"is": 1, "it": 1, "so": 2}
    assert test.store("counts").get("so").timestamp == 7


def test_a_record_goes_to_the_first_branch_that_wants_it() -> None:
    builder = StreamsBuilder()
    split = builder.stream("a").split(name="by-size-")
    split.branch(lambda _, v: v > 10, name="big").to("big")
    split.branch(lambda _, v: v > 5, name="middle").to("middle")
    split.default(name="small").to("small")
    test = TopologyTest(builder.build())
    for value in (20, 7, 1):
        test.pipe_input("a", "k", value, 0)
    assert [test.read_records(topic) for topic in ("big", "middle", "small")] == [[("k", 20)], [("k", 7)], [("k", 1)]]


def test_a_function_may_choose_the_topic_of_each_record() -> None:
    builder = StreamsBuilder()
    builder.stream("a").to(lambda record: f"of-{record.key}")
    test = TopologyTest(builder.build())
    test.pipe_input("a", "x", 1, 5)
    (record,) = test.read_outputs("of-x")
    assert (record.key, record.value, record.timestamp) == ("x", 1, 5)


def placed(partitioner: Any, **more: Any) -> TopologyTest:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("a").to("out", partitioner=partitioner, name="end")
    return TopologyTest(builder.build(), **more)


def test_a_partitioner_chooses_one_partition_several_none_or_leaves_it_to_the_key() -> None:
    test = placed(spread_by_value, partitions={"out": 3})
    for value in ("one", "all", "none", "other"):
        test.pipe_input("a", "k", value, 0)
    assert [(record.value, record.partition) for record in test.read_outputs("out")] == [
        ("one", 2), ("all", 0), ("all", 1), ("all", 2), ("other", None),
    ]  # fmt: skip
    assert test.dropped == {"end": 1}


@pytest.mark.parametrize("wrong", [3, -1, True, [0, 3], ["0"]])
def test_a_partition_that_the_topic_does_not_have_is_a_failure_of_production(wrong: Any) -> None:
    with pytest.raises(ProcessingError, match=r"end cannot write to out .*the topic has the partitions 0 to 2"):
        placed(lambda *_: wrong, partitions={"out": 3}).pipe_input("a", "k", "v", 0)
    test = placed(lambda *_: wrong, partitions={"out": 3}, on_error="skip")
    test.pipe_input("a", "k", "v", 0)
    assert (test.read_outputs("out"), [fault.stage for fault in test.faults]) == ([], ["production"])


def test_partitions_of_a_test_are_of_topics_that_are_written_to() -> None:
    with pytest.raises(TopologyError, match="does not write to the topic ouch"):
        placed(None, partitions={"ouch": 3})
    with pytest.raises(TopologyError, match="the topic out cannot have 0 partitions"):
        placed(None, partitions={"out": 0})


def test_a_late_record_is_left_out_and_counted() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows(10, grace_ms=5)
    builder.stream("a").group_by_key().windowed_by(windows).count(name="counts", store="kept").to_stream().to("out")
    test = TopologyTest(builder.build())
    for time in (1, 15, 2, 14):
        test.pipe_input("a", "k", 0, time)
    assert test.read_records("out") == [
        (Windowed("k", 0, 10), 1),
        (Windowed("k", 10, 20), 1),
        (Windowed("k", 10, 20), 2),
    ]
    assert test.dropped == {"counts": 1}


def test_a_session_that_grows_deletes_the_one_it_was() -> None:
    builder = StreamsBuilder()
    builder.stream("a").group_by_key().windowed_by(SessionWindows(5)).count().to_stream().to("out")
    test = TopologyTest(builder.build())
    test.pipe_input("a", "k", 0, 10)
    test.pipe_input("a", "k", 0, 14)
    assert test.read_records("out") == [
        (Windowed("k", 10, 10), 1), (Windowed("k", 10, 10), None), (Windowed("k", 10, 14), 2),
    ]  # fmt: skip


class Announce:
    """Tells how many records came, whenever ten milliseconds of a clock have passed."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def init(self, context: Any) -> None:
        self._context, self._store = context, context.store("seen")
        context.schedule(10, self._tell, clock=self._clock)

    def process(self, record: Record) -> None:
        before = self._store.get("all")
        self._store.put("all", (before.value if before else 0) + 1, record.timestamp)

    def _tell(self, time: int) -> None:
        if seen := self._store.get("all"):
            self._context.forward(Record("all", seen.value, time))


def announcing(clock: str) -> TopologyTest:
    builder = StreamsBuilder()
    builder.add_store("seen", value=INT64)
    builder.stream("a").process(lambda: Announce(clock), stores=["seen"]).to("out")
    return TopologyTest(builder.build())


def test_a_processors_punctuation_follows_the_time_of_day() -> None:
    test = announcing("wall")
    test.pipe_input("a", "k", 0, 500)
    assert test.read_outputs("out") == []
    test.advance_wall_clock(9)
    assert test.read_outputs("out") == []
    test.advance_wall_clock(1)
    assert [(r.value, r.timestamp) for r in test.read_outputs("out")] == [(1, 10)]


def test_a_processors_punctuation_follows_stream_time() -> None:
    test = announcing("stream")
    for time in (3, 9, 10, 19, 45):
        test.pipe_input("a", "k", 0, time)
    assert [(r.value, r.timestamp) for r in test.read_outputs("out")] == [(1, 3), (3, 10), (5, 45)]


def test_process_values_refuses_another_key() -> None:
    class Renames:
        def init(self, context: Any) -> None:
            self._context = context

        def process(self, record: Record) -> None:
            self._context.forward(record.with_key("other"))

    builder = StreamsBuilder()
    builder.stream("a").process_values(Renames).to("out")
    with pytest.raises(ProcessingError, match="use process\\(\\) to send 'other'"):
        TopologyTest(builder.build()).pipe_input("a", "k", 0, 0)


def test_an_aggregate_that_a_function_changes_in_place_does_not_change_the_row_before() -> None:
    def add(_key: Any, value: Any, seen: list[Any]) -> list[Any]:
        seen.append(value)
        return seen

    builder = StreamsBuilder()
    lists = builder.stream("a").group_by_key().aggregate(list, add)
    lists.group_by(lambda _, seen: (str(len(seen)), 1), key=TEXT).count(store="by-length")
    test = TopologyTest(builder.build())
    for _ in range(3):
        test.pipe_input("a", "k", 1, 0)
    assert test.rows("by-length") == {"1": 0, "2": 0, "3": 1}


def test_a_timestamp_extractor_sets_the_time_and_a_negative_one_drops() -> None:
    builder = StreamsBuilder()
    builder.stream("a", timestamp=lambda record, stream_time, place: record.value, name="timed").to("out")
    test = TopologyTest(builder.build())
    test.pipe_input("a", "k", 42, 7)
    test.pipe_input("a", "k", -1, 7)
    assert [record.timestamp for record in test.read_outputs("out")] == [42]
    assert test.dropped == {"timed": 1}


def test_headers_travel_with_a_record() -> None:
    builder = StreamsBuilder()
    builder.stream("a").map_values(str, value=TEXT).to("out")
    test = TopologyTest(builder.build())
    test.pipe_input("a", "k", 1, 0, headers=(("trace", b"7"),))
    record = test.read_output("out")
    assert record is not None
    assert record.headers == (("trace", b"7"),)


def refused(build: Any) -> str:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError) as error:
        build(builder)
        builder.build()
    return str(error.value)


def test_topologies_that_cannot_be_are_refused_with_the_way_out() -> None:
    assert "begin with stream(), table() or global_table()" in refused(lambda b: None)
    assert "the topic a is read twice" in refused(lambda b: (b.stream("a"), b.table("a")))
    assert "did you mean seen?" in refused(
        lambda b: (b.add_store("seen"), b.stream("a").process(Announce, stores=["sen"]))
    )
    assert "no processor uses the store seen" in refused(lambda b: (b.add_store("seen"), b.stream("a")))
    assert "windows=JoinWindows.of" in refused(lambda b: b.stream("a").join(b.stream("b"), max))
    assert "table_key=" in refused(lambda b: b.stream("a").join(b.global_table("b"), max))
    another = StreamsBuilder()
    for join in (
        lambda b: b.stream("a").merge(another.stream("b")),
        lambda b: b.stream("a").join(another.table("c"), max),
        lambda b: b.stream("a").join(another.global_table("d"), max, table_key=max),
        lambda b: b.table("a").outer_join(another.table("e"), max),
        lambda b: b.table("a").join_on_foreign_key(another.table("f"), max, max),
        lambda b: b.stream("a").group_by_key().cogroup(max).cogroup(another.stream("g").group_by_key(), max),
    ):
        assert "both sides come from different builders" in refused(join)
    assert "leave store='s' out" in refused(lambda b: b.stream("a").join(b.table("b"), max, store="s"))
    assert "grace_ms= is for joins with a table" in refused(
        lambda b: b.stream("a").join(b.global_table("b"), max, table_key=max, grace_ms=5)
    )
    assert "grace_ms=-1 must not be negative" in refused(
        lambda b: b.stream("a").join(b.table("b", history_ms=5), max, grace_ms=-1)
    )
    assert "follows a windowed aggregate" in refused(lambda b: b.table("a").suppress_until_window_closes())
    assert "is not allowed" in refused(lambda b: b.stream("a b"))
    assert "advance_ms=20 must be between 1 and the size" in refused(lambda b: TimeWindows(10, 20))
    assert "ends before it begins" in refused(lambda b: JoinWindows(-5, 1))
    windowed = refused(lambda b: b.stream("a").group_by_key().windowed_by(SessionWindows(5)).aggregate(int, max))
    assert "over sessions needs merge=" in windowed


def test_a_test_refuses_topics_and_stores_that_the_topology_does_not_have() -> None:
    builder = StreamsBuilder()
    builder.stream("orders").group_by_key().count(store="totals").to_stream().to("out")
    test = TopologyTest(builder.build())
    with pytest.raises(TopologyError, match="did you mean orders"):
        test.pipe_input("order", "k", 1, 0)
    with pytest.raises(TopologyError, match="did you mean totals"):
        test.store("total")
    with pytest.raises(TopologyError, match="does not write to the topic ouch"):
        test.read_output("ouch")


def test_a_stream_meets_the_value_of_a_versioned_table_that_was_valid_at_its_time() -> None:
    builder = StreamsBuilder(value=TEXT)
    prices = builder.table("prices", history_ms=100, store="prices")
    builder.stream("orders").left_join(prices, lambda order, price: f"{order} at {price}").to("out")
    test = TopologyTest(builder.build())
    for price, time in (("1", 10), ("3", 30), (None, 40), ("2", 20), ("5", 130)):
        test.pipe_input("prices", "tea", price, time)
    for order, time in (("a", 29), ("b", 25), ("c", 35), ("d", 50), ("e", 140), ("f", 5)):
        test.pipe_input("orders", "tea", order, time)
    assert [value for _, value in test.read_records("out")] == [
        "a at None", "b at None", "c at 3", "d at None", "e at 5", "f at None",
    ]  # fmt: skip
    assert test.rows("prices") == {"tea": "5"}
    test.pipe_input("prices", "tea", "0", 29)
    assert test.store("prices").expired == 1


def priced(joiner: Any, *, on_error: str = "fail") -> TopologyTest:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    prices = builder.table("prices", history_ms=100)
    builder.stream("orders").left_join(prices, joiner, grace_ms=10, name="priced").to("out")
    return TopologyTest(builder.build(), on_error=on_error)


def test_a_join_with_grace_waits_for_updates_that_come_late_and_joins_late_records_at_once() -> None:
    test = priced(lambda order, price: f"{order} at {price}")
    for topic, value, time in (("prices", "1", 0), ("orders", "a", 20), ("prices", "2", 15), ("orders", "b", 29)):
        test.pipe_input(topic, "tea", value, time, headers=(("from", value.encode()), ("empty", None)))
    assert test.read_outputs("out") == []
    test.pipe_input("orders", "tea", "c", 30)
    (record,) = test.read_outputs("out")
    assert (record.value, record.timestamp, record.headers) == ("a at 2", 20, (("from", b"a"), ("empty", None)))
    test.pipe_input("orders", "tea", "late", 14)
    test.pipe_input("orders", None, "without a key", 90)
    assert [(r.value, r.timestamp) for r in test.read_outputs("out")] == [
        ("late at 1", 14), ("without a key at None", 90),
    ]  # fmt: skip
    test.pipe_input("orders", "tea", "d", 40)
    assert test.read_records("out") == [("tea", "b at 2"), ("tea", "c at 2")]


def test_a_record_that_waited_and_fails_is_left_out_alone() -> None:
    test = priced(lambda order, price: f"{int(order)} at {price}", on_error="skip")
    for value, time in (("1", 0), ("x", 0), ("2", 0), ("3", 1), ("4", 50)):
        test.pipe_input("orders", "tea", value, time)
    assert [value for _, value in test.read_records("out")] == ["1 at None", "2 at None", "3 at None"]
    assert [fault.reason for fault in test.faults] == [
        "priced failed: ValueError: invalid literal for int() with base 10: 'x'"
    ]
    with pytest.raises(ProcessingError, match="priced failed: ValueError"):
        failing = priced(lambda order, price: int(order))
        failing.pipe_input("orders", "tea", "x", 0)
        failing.pipe_input("orders", "tea", "1", 50)


def test_a_versioned_table_refuses_suppress() -> None:
    table = StreamsBuilder().table("prices", history_ms=100)
    with pytest.raises(TopologyError, match="versioned tables"):
        table.suppress_until_time_limit(5)


def test_values_are_made_of_keys_and_values_without_a_repartition() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    table = builder.table("t", store="t").map_values(lambda key, value: f"{key}={value}", with_key=True)
    stream = builder.stream("a").map_values(lambda key, value: f"{key}:{value}", with_key=True)
    words = stream.flat_map_values(lambda key, value: [value, f"{key}!"], with_key=True)
    words.join(table, lambda key, left, right: f"{key} {left} {right}", with_key=True).to("out")
    topology = builder.build()
    test = TopologyTest(topology)
    test.pipe_input("t", "k", "1", 0)
    test.pipe_input("a", "k", "v", 1)
    assert test.read_records("out") == [("k", "k k:v k=1"), ("k", "k k! k=1")]
    assert not any(source.repartition for source in topology.sources())


def test_a_joiner_of_streams_takes_the_key_also_for_records_that_met_nobody() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)

    def told(key: str, left: str | None, right: str | None) -> str:
        return f"{key} {left} {right}"

    builder.stream("a").outer_join(builder.stream("b"), told, windows=JoinWindows.of(5), with_key=True).to("out")
    test = TopologyTest(builder.build())
    for topic, key, value, time in (("a", "k", "1", 0), ("b", "k", "2", 3), ("b", "j", "3", 4), ("a", "l", "4", 90)):
        test.pipe_input(topic, key, value, time)
    assert test.read_records("out") == [("k", "k 1 2"), ("j", "j None 3")]


def test_windows_are_kept_for_queries_as_long_as_the_retention_says() -> None:
    def found(retention_ms: int | None) -> list[int]:
        builder = StreamsBuilder(key=TEXT, value=TEXT)
        windowed = builder.stream("a").group_by_key().windowed_by(TimeWindows(10))
        windowed.count(store="counts", retention_ms=retention_ms).to_stream().map(lambda w, n: (w.key, str(n))).to(
            "out"
        )
        test = TopologyTest(builder.build())
        for time in (0, 50, 90):
            test.pipe_input("a", "k", "v", time)
        return [window.start for window in test.rows("counts")]

    assert found(None) == [90]
    assert found(50) == [50, 90]
    with pytest.raises(TopologyError, match=r"retention_ms=9 of the store counts is below 10"):
        found(9)


def test_an_unknown_place_to_begin_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TopologyError, match=r"offset_reset='lastest' is not known; did you mean latest\?"):
        StreamsBuilder().stream("a", offset_reset="lastest")


def test_a_processor_has_stores_of_windows_of_sessions_and_of_versions() -> None:
    class Kept:
        def init(self, context: Any) -> None:
            self._context = context
            self._windows, self._versions = context.store("windows"), context.store("versions")
            self._sessions = context.store("sessions")

        def process(self, record: Record) -> None:
            start = record.timestamp // 10 * 10
            self._windows.put(record.key, record.value, record.timestamp, start)
            self._sessions.put(Windowed(record.key, start, record.timestamp), record.value)
            self._versions.put(record.key, record.value, record.timestamp)
            older = self._versions.get(record.key, 7)
            self._context.forward(record.with_value(f"{len(self._windows.within(record.key, 0, 99))} {older.value}"))

    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.add_store("windows", windows=TimeWindows(10), retention_ms=50)
    builder.add_store("sessions", windows=SessionWindows(10), retention_ms=50)
    builder.add_store("versions", history_ms=100)
    processed = builder.stream("a").process(Kept, stores=["windows", "sessions", "versions"], key=TEXT, value=TEXT)
    processed.to("out")
    test = TopologyTest(builder.build())
    for value, time in (("x", 5), ("y", 15), ("z", 90)):
        test.pipe_input("a", "k", value, time)
    assert test.read_records("out") == [("k", "1 x"), ("k", "2 x"), ("k", "1 x")]
    assert test.rows("sessions") == {Windowed("k", 90, 90): "z"}
    with pytest.raises(TopologyError, match=r"retention_ms=5 is for windows"):
        builder.add_store("other", retention_ms=5)
    with pytest.raises(TopologyError, match="are two kinds of stores"):
        builder.add_store("other", windows=TimeWindows(10), history_ms=5)
