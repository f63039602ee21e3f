"""Rows between the levels: their order, and where records of repartition topics go."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.streams import TEXT, StreamsBuilder, TopologyError
from ottla.streams.engine.task import Output
from ottla.streams.layout import layout
from ottla.streams.on_spark.plan import DONE, planned
from ottla.streams.on_spark.rows import check_places, in_order, inputs, made, waiting
from ottla.streams.values import Input, Place


def records(topic: str, times: list[int]) -> list[Input]:
    return [Input(Place(topic, 0, at), None, b"", time) for at, time in enumerate(times)]


def test_each_producers_records_keep_their_order_and_the_earliest_first_one_is_next() -> None:
    rows = [(0, record) for record in [*records("b", [3, 1, 9]), *records("a", [2, 8])]]
    found = [(record.place.topic, record.timestamp) for record in in_order(rows, by_time=False)]
    assert found == [("a", 2), ("b", 3), ("b", 1), ("a", 8), ("b", 9)]
    assert [record.timestamp for record in in_order(rows, by_time=True)] == [1, 2, 3, 8, 9]


def batch_of(batch: pa.RecordBatch, partition: int) -> pa.Table:
    table = pa.Table.from_batches([batch]).slice(0, 4)
    return table.filter(pc.equal(table.column("partition"), pa.scalar(partition, pa.int32())))


def test_rows_come_back_as_they_were_made_and_records_of_own_topics_lie_where_kafka_puts_them() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("a").group_by(lambda _, v: v).count(store="kept").to_stream().to("out")
    topology = builder.build()
    plan = planned(topology, layout(topology, "app", {"a": 3}))
    headers = (("h", b"1"), ("n", None))
    keys = [b"k", b"other", b"", None]
    outputs = [Output("kept-repartition", "s", key, b"v", 7, headers, 0, repartition=True) for key in keys]
    outputs += [Output("out", "s", b"k", None, 8, (), 0), Output("out", "s", b"k", None, 8, (), 0, partition=2)]
    batch = made(outputs, plan, {"kept-repartition": 3}, 5)
    assert batch.column("level").to_pylist() == [1, 1, 1, 1, DONE, DONE]
    assert batch.column("partition").to_pylist()[4:] == [None, 2]
    wanted = [murmur2_partitioner(key, range(3), 3) for key in keys[:3]]
    assert batch.column("partition").to_pylist()[:4] == [*wanted, 5 % 3]

    check_places(batch_of(batch, wanted[0]), plan, (1, wanted[0]))
    with pytest.raises(TopologyError, match="is new, and the application has 3 tasks for the topic"):
        check_places(batch_of(batch, wanted[0]), plan, (1, (wanted[0] + 1) % 3))

    table = pa.Table.from_batches([batch])
    assert waiting(table, 1).column("topic").to_pylist() == ["out", "out"]
    read = [record for _, record in inputs(table.slice(0, 4))]
    assert [(record.key, record.value, record.timestamp, record.headers) for record in read] == [
        (key, b"v", 7, headers) for key in keys
    ]


def test_rows_without_headers_have_empty_lists_of_them_as_spark_is_slow_with_null_ones() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("a").to("out")
    topology = builder.build()
    plan = planned(topology, layout(topology, "app", {"a": 1}))
    plain, marked = (Output("out", "s", b"k", b"v", 0, headers, 0) for headers in ((), (("h", b"1"),)))
    for outputs in ([plain, plain], [plain, marked]):
        column = made(outputs, plan, {}, 0).column("headers")
        assert (column.null_count, column.to_pylist()[0]) == (0, [])
    assert column.to_pylist()[1] == [{"key": "h", "value": b"1"}]
