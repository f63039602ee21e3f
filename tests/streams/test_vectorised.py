"""Functions on columns give what the same functions give record by record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams import (
    INT64,
    JSON,
    TEXT,
    ProcessingError,
    Stream,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
    vectorised,
)
from ottla.streams.engine.task import Results, Task
from ottla.streams.on_error import chosen
from ottla.streams.values import Input, Place


def shorter(keys: pa.Array, values: pa.Array) -> pa.Array:
    if pc.any(pc.equal(values, "bad")).as_py():
        raise ValueError("a bad one")
    return pc.coalesce(values, keys, "none")


def shorter_by_row(key: str | None, value: str | None) -> str:
    if value == "bad":
        raise ValueError("a bad one")
    return value or key or "none"


OPERATIONS: dict[str, tuple[str, Any, Any]] = {
    "keep": ("filter", lambda k, v: pc.not_equal(v, "1"), lambda k, v: v is not None and v != "1"),
    "leave": ("filter_not", lambda k, v: pc.starts_with(v, "2"), lambda k, v: v is not None and v.startswith("2")),
    "loud": ("map_values", lambda v: pc.binary_join_element_wise(v, "!", ""), lambda v: None if v is None else v + "!"),
    "turned": ("map", lambda k, v: (v, k), lambda k, v: (v, k)),
    "chosen": ("select_key", shorter, shorter_by_row),
    "alone": ("peek", None, lambda k, v: None),
}


def topology(branches: list[list[str]], *, columns: bool) -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    source = builder.stream("a")
    for names in branches:
        stream: Stream = source
        for name in names:
            operation, on_columns, by_row = OPERATIONS[name]
            stream = getattr(stream, operation)(vectorised(on_columns) if columns and on_columns else by_row)
        stream.to("out")
        stream.group_by_key().count().to_stream().to("counts", value=INT64)
    return builder.build()


def records(rows: list[Any]) -> list[Input]:
    return [
        Input(Place("a", 0, at), *(None if text is None else text.encode("latin-1") for text in row[:2]), row[2])
        for at, row in enumerate(rows)
    ]


def results(made: Topology, batches: list[list[Input]]) -> list[Results]:
    task, found = Task(made, on_error=chosen("skip")), []
    for number, batch in enumerate(batches):
        task.feed(*batch)
        found.append(task.take(number))
    return found


@settings(max_examples=60, deadline=None)
@given(
    branches=st.lists(st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=4), min_size=1, max_size=2),
    rows=st.lists(
        st.tuples(
            st.sampled_from(["k", "j", None]),
            st.sampled_from(["1", "2", "12", "bad", "\xff", None]),
            st.integers(-1, 9),
        ),
        max_size=12,
    ),
    cut=st.integers(0, 12),
)
def test_columns_give_results_state_and_failures_of_single_records(
    branches: list[list[str]], rows: list[Any], cut: int
) -> None:
    read = records(rows)
    batches = [read[:cut], read[cut:]]
    assert results(topology(branches, columns=True), batches) == results(topology(branches, columns=False), batches)


def test_a_batch_is_one_call_of_each_function_behind_the_source_and_single_calls_behind_others() -> None:
    calls: list[tuple[str, int]] = []

    def seen(name: str) -> Any:
        return vectorised(lambda keys, values: calls.append((name, len(keys))) or pc.is_valid(values))

    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("a").filter(seen("first")).filter(seen("second")).peek(lambda k, v: None).filter(seen("third"))
    Task(builder.build()).feed(*records([("k", "1", 0), ("k", None, 0), ("k", "2", 0)]))
    assert calls == [("first", 3), ("second", 2), ("third", 1), ("third", 1)]


def test_a_record_that_fails_is_named_though_it_came_with_others() -> None:
    task = Task(topology([["chosen"]], columns=True))
    with pytest.raises(
        ProcessingError, match="KEY-SELECT-0000000001 failed for the record at a-0@1: ValueError: a bad"
    ):
        task.feed(*records([("k", "1", 0), ("k", "bad", 0), ("k", "2", 0)]))


@pytest.mark.parametrize(
    ("operation", "function", "said"),
    [
        ("filter", lambda k, v: v, "returned string: filter takes a column of bool"),
        ("map_values", lambda v: v.drop_null(), "returned 1 rows for 2 records: one for each"),
        ("map_values", lambda v: v.to_pylist(), "returned a builtins list: map_values takes Arrow columns"),
        ("map", lambda k, v: k, "map takes a pair of columns"),
    ],
)
def test_a_result_of_another_shape_ends_the_run_under_every_choice(operation: str, function: Any, said: str) -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    getattr(builder.stream("a"), operation)(vectorised(function)).to("out")
    with pytest.raises(TopologyError, match=said):
        results(builder.build(), [records([("k", "1", 0), ("k", None, 0)])])


def test_an_operation_that_calls_its_function_with_single_records_refuses_columns() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("a").flat_map_values(vectorised(lambda v: v)).to("out")
    with pytest.raises(TopologyError, match="this operation calls its function with single records: filter, "):
        results(builder.build(), [records([("k", "1", 0)])])


def test_a_serde_without_a_type_needs_one_and_values_are_read_by_it() -> None:
    stream = StreamsBuilder(key=TEXT, value=JSON).stream("a")
    with pytest.raises(TopologyError, match=r"the serde json has no type of column: name it, @vectorised\(value="):
        stream.map_values(vectorised(lambda values: values))
    with pytest.raises(TopologyError, match="no pyarrow type; did you mean int64"):
        stream.map_values(vectorised(value="int46")(lambda values: values))

    @vectorised(value=pa.struct({"price": pa.float64()}))
    def twice(values: pa.Array) -> pa.Array:
        return pc.multiply(pc.struct_field(values, "price"), 2)

    builder = StreamsBuilder(key=TEXT, value=JSON)
    builder.stream("a").map_values(twice).to("out")
    (found,) = results(builder.build(), [records([("k", '{"price":1}', 0), ("k", '{"price":"x"}', 0), ("k", None, 0)])])
    assert [output.value for output in found.outputs] == [b"2.0", None]
    assert "name the type that fits, @vectorised" in found.faults[0].reason


def test_grouping_by_columns_sends_records_to_the_same_groups() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    grouped = builder.stream("a").group_by(vectorised(lambda keys, values: values))
    grouped.windowed_by(TimeWindows(10)).count(store="kept")
    task = Task(builder.build())
    task.feed(*records([("k", "1", 0), ("j", "1", 3), ("k", "2", 4)]))
    assert [INT64.from_bytes(entry[0]) for entry in task.take(0).changes["kept"].values()] == [2, 1]
