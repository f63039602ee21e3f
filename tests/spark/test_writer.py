"""Writing Arrow batches as a task does, without Spark."""

import random
import time

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType

from ottla.client.produce import partitioners
from ottla.kernel.errors import ApiError
from ottla.rows.arrow import HEADERS, with_plain_types
from ottla.spark import sender
from ottla.spark.marker import SparkTask
from ottla.spark.once import write_once
from ottla.spark.options import sink_options
from ottla.spark.sink import check_columns
from ottla.spark.writer import write_rows


def sink(bootstrap, **more):
    given = {"kafka.bootstrap.servers": bootstrap, **{name.replace("__", "."): text for name, text in more.items()}}
    return sink_options(given)


def batch(**columns):
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "headers": HEADERS,
        "topic": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    return pa.RecordBatch.from_pydict({name: pa.array(items, kinds[name]) for name, items in columns.items()})


def test_keys_values_headers_and_nulls_arrive(bootstrap, topics):
    topic = topics.new()
    rows = batch(
        key=[b"a", None, b""],
        value=[b"1", b"2", None],
        headers=[[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []],
    )
    write_rows(sink(bootstrap, topic=topic), iter([rows]))
    found = topics.read(topic)
    assert [(record.key, record.value) for record in found] == [(b"a", b"1"), (None, b"2"), (b"", None)]
    assert [record.headers for record in found] == [(("h", b"x"), ("h", None)), (), ()]


def test_records_have_the_times_of_their_rows_where_that_is_wanted(bootstrap, topics):
    topic = topics.new()
    rows = batch(key=[b"a", b"b", b"c"], value=[b"1", b"2", b"3"], timestamp=[1_700_000_000_123_000, None, 0])
    before = time.time() * 1000
    write_rows(sink(bootstrap, topic=topic, timestamps="column"), iter([rows.slice(1), rows.slice(0, 1)]))
    write_rows(sink(bootstrap, topic=topic), iter([rows]))
    now, then, given, *others = (record.timestamp for record in topics.read(topic))
    assert (then, given) == (0, 1_700_000_000_123)
    assert all(before - 1 < time_ms < before + 600_000 for time_ms in (now, *others))


def test_times_of_rows_are_refused_without_a_column_of_times():
    with pytest.raises(ValueError, match="needs a column timestamp of type timestamp, and there is none"):
        check_columns(StructType([StructField("value", BinaryType())]), "topic", timed=True)


def with_large_types(rows):
    """The rows as Spark gives them with spark.sql.execution.arrow.useLargeVarTypes."""
    header = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    kinds = {"topic": pa.large_string(), "headers": pa.list_(header)}
    columns = {name: rows.column(name).cast(kinds.get(name, pa.large_binary())) for name in rows.schema.names}
    return pa.RecordBatch.from_pydict(columns)


def test_columns_of_arrows_large_types_are_written_as_the_plain_ones(bootstrap, topics):
    topic = topics.new()
    header = [{"key": "name", "value": b"content"}]
    rows = batch(topic=[topic] * 3, key=[b"abc", None, b""], value=[b"12", b"", None], headers=[header, None, []])
    expected = [(b"abc", b"12", (("name", b"content"),)), (None, b"", ()), (b"", None, ())]
    write_rows(sink(bootstrap), iter([with_large_types(rows)]))
    assert [(record.key, record.value, record.headers) for record in topics.read(topic)] == expected
    options = sink(bootstrap, delivery="exactly-once", delivery__marker__topic=topic)
    for given in (rows, with_large_types(rows)):  # the digest in the marker is the same
        write_once(options, SparkTask(f"q-{topic}", 0, 0), iter([given]))
    assert [(record.key, record.value, record.headers) for record in topics.read(topic)] == expected * 2


def test_large_types_inside_other_types_become_plain():
    inner = pa.struct([("a", pa.large_string()), ("b", pa.map_(pa.large_string(), pa.list_(pa.large_binary())))])
    (row,) = [{"a": "x", "b": [("k", [b"1", None])]}]
    rows = pa.RecordBatch.from_pydict({"value": pa.array([row, None], inner), "other": pa.array(["y", "z"])})
    plain = with_plain_types(rows, {"value"})
    kind = pa.struct([("a", pa.string()), ("b", pa.map_(pa.string(), pa.list_(pa.binary())))])
    assert plain.schema.types == [kind, pa.string()]
    assert plain.to_pydict() == rows.to_pydict()


def test_keys_choose_partitions_as_java_clients_do(bootstrap, topics):
    topic = topics.new(4)
    keys = [b"key-%d" % number for number in range(200)]
    write_rows(sink(bootstrap, topic=topic), iter([batch(key=keys, value=keys)]))
    expected = {n: {k for k in keys if (partitioners.murmur2(k) & 0x7FFFFFFF) % 4 == n} for n in range(4)}
    for partition, wanted in expected.items():
        pieces = topics.cluster.fetch_range(topic, partition, 0, len(wanted)) if wanted else ()
        from ottla.records.reader import read_run

        assert {record.key for piece in pieces for record in read_run(piece.records)} == wanted


def test_the_partition_column_decides_and_one_that_is_not_there_is_refused(bootstrap, topics):
    topic = topics.new(3)
    write_rows(sink(bootstrap, topic=topic), iter([batch(value=[b"a", b"b"], partition=[2, 2])]))
    ends = topics.cluster.list_offsets(topics.cluster.partitions(topic), -1)
    assert [ends[partition].offset for partition in sorted(ends)] == [0, 0, 2]
    with pytest.raises(ValueError, match=r"3 is not in the range \[0...3\)"):
        write_rows(sink(bootstrap, topic=topic), iter([batch(value=[b"a"], partition=[3])]))


def test_partitions_that_were_added_since_the_last_task_get_rows(bootstrap, topics):
    topic = topics.new()
    keys = [b"key-%d" % number for number in range(20)]
    write_rows(sink(bootstrap, topic=topic), iter([batch(value=keys)]))
    topics.admin.create_partitions({topic: 3})
    topics.cluster.refresh([topic])
    write_rows(sink(bootstrap, topic=topic), iter([batch(key=keys, value=keys)]))
    write_rows(sink(bootstrap, topic=topic), iter([batch(value=[b"a"], partition=[2])]))
    counts = [sum((partitioners.murmur2(key) & 0x7FFFFFFF) % 3 == number for key in keys) for number in range(3)]
    ends = topics.cluster.list_offsets(topics.cluster.partitions(topic), -1)
    assert [ends[partition].offset for partition in sorted(ends)] == [20 + counts[0], counts[1], counts[2] + 1]


def test_the_topic_column_sends_rows_to_many_topics_and_the_option_goes_before_it(bootstrap, topics):
    one, two = topics.new(), topics.new()
    rows = batch(value=[b"1", b"2", b"3"], topic=[one, two, one])
    write_rows(sink(bootstrap), iter([rows]))
    assert [record.value for record in topics.read(one)] == [b"1", b"3"]
    write_rows(sink(bootstrap, topic=two), iter([rows]))
    assert [record.value for record in topics.read(two)] == [b"2", b"1", b"2", b"3"]


def test_a_null_topic_is_refused(bootstrap):
    with pytest.raises(ValueError, match="null topic present in the data"):
        write_rows(sink(bootstrap), iter([batch(value=[b"1"], topic=[None])]))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(bootstrap, topics, codec):
    topic = topics.new()
    rows = batch(value=[b"x" * 1000] * 500)
    write_rows(sink(bootstrap, topic=topic, kafka__compression__type=codec), iter([rows]))
    (piece,) = list(topics.cluster.fetch_range(topic, 0, 0, 500))
    assert len(piece.records) < 100_000
    assert [record.value for record in topics.read(topic)] == [b"x" * 1000] * 500


def test_large_inputs_become_several_batches_without_loss_or_disorder(bootstrap, topics):
    topic = topics.new()
    values = [b"%06d" % number + b"x" * 300 for number in range(3000)]
    inputs = [batch(key=[b"k"] * 1000, value=values[at : at + 1000]) for at in range(0, 3000, 1000)]
    written = write_rows(sink(bootstrap, topic=topic, kafka__batch__size="50000"), iter(inputs))
    assert written.rows == 3000 and written.batches > 15
    assert [record.value for record in topics.read(topic)] == values


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_batches_that_are_too_large_for_the_topic_are_cut(bootstrap, topics, codec):
    topic = topics.new(max_message_bytes="100000")
    values = [b"%06d" % number + random.Random(number).randbytes(1000) for number in range(1000)]
    for _ in range(2):
        written = write_rows(sink(bootstrap, topic=topic, kafka__compression__type=codec), iter([batch(value=values)]))
        assert written.rows == 1000 and written.batches >= 11
    assert [record.value for record in topics.read(topic)] == values * 2


def test_a_row_that_is_too_large_for_the_topic_is_refused_with_its_size(bootstrap, topics):
    topic = topics.new(max_message_bytes="100000")
    rows = batch(value=[b"a", b"x" * 200_000, b"b"])
    with pytest.raises(ApiError, match=rf"MESSAGE_TOO_LARGE: a row of topic '{topic}': .* 2000\d\d bytes"):
        write_rows(sink(bootstrap, topic=topic), iter([rows]))


def test_the_next_task_of_a_worker_goes_on_with_its_producer(bootstrap, topics):
    topic = topics.new()
    for number in range(3):
        write_rows(sink(bootstrap, topic=topic), iter([batch(value=[b"%d" % number])]))
    assert [record.value for record in topics.read(topic)] == [b"0", b"1", b"2"]
    assert len({each.identity for each in sender._kept.values()}) == len(sender._kept)


def schema(**kinds):
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_columns_are_checked_as_sparks_connector_does():
    check_columns(schema(value=BinaryType()), "t")
    check_columns(schema(value=StringType(), topic=StringType(), partition=IntegerType()), None)
    headers = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
    check_columns(schema(value=StringType(), headers=headers, other=IntegerType()), "t")
    with pytest.raises(ValueError, match="Required attribute 'value' not found"):
        check_columns(schema(key=StringType()), "t")
    with pytest.raises(ValueError, match="topic option required when no 'topic' attribute is present"):
        check_columns(schema(value=StringType()), None)
    with pytest.raises(
        ValueError, match=r"value attribute unsupported type int. value must be a\(n\) string or binary"
    ):
        check_columns(schema(value=IntegerType()), "t")
    with pytest.raises(ValueError, match="partition attribute unsupported type string"):
        check_columns(schema(value=StringType(), partition=StringType()), "t")
