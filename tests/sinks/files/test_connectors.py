"""The S3 and the HDFS sink on a local folder: names, formats, refusals, and what a task that died leaves behind."""

import asyncio
import gzip
import io
import json
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from ottla.connect import data
from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.plugins.base import RefusedRecords
from ottla.connect.records import SinkRecord
from ottla.kernel.ids import TopicPartition
from ottla.sinks.files import connectors
from ottla.sinks.files.connectors import HdfsSinkConnector, S3SinkConnector
from ottla.stores import StoreUnreachable
from ottla.stores.local import LocalStore

JSON = {"format.class": "io.confluent.connect.s3.format.json.JsonFormat"}
POINT = data.struct([("x", data.INT32), ("name", data.OPTIONAL_STRING)], name="Point")
HERE = TopicPartition("t", 0)


def point(x, name=None):
    return data.Struct.of(POINT, x=x, name=name)


def records(*values, schema=None, start=0, time=None):
    return [SinkRecord("t", 0, None, None, schema, value, time, offset=start + at) for at, value in enumerate(values)]


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


@pytest.fixture
def s3(tmp_path, monkeypatch):
    """Makes tasks of the S3 sink whose bucket is a local folder."""
    monkeypatch.setattr(connectors, "_bucket", lambda options: LocalStore(tmp_path))
    return lambda **given: S3SinkConnector.task({"s3.bucket.name": "b", "flush.size": "3", **JSON, **given})


def hdfs(folder, **given):
    return HdfsSinkConnector.task({"store.url": folder.as_uri(), "flush.size": "3", **JSON, **given})


def put(task, *batches, places=(HERE,)):
    """Run a task over batches of records; the offsets that it would have committed."""

    async def story():
        await task.open(places)
        try:
            for batch in batches:
                await task.put(batch)
            return await task.flush()
        finally:
            await task.close()

    return asyncio.run(story())


def test_names_and_lines_are_those_of_confluents_s3_sink(s3, tmp_path):
    committed = put(s3(), records({"a": 1}, {"a": "ü"}), records({"a": None}, {"a": 4}, start=2))
    assert tree(tmp_path) == ["topics/t/partition=0/t+0+0000000000.json"]
    assert (tmp_path / "topics/t/partition=0/t+0+0000000000.json").read_text() == '{"a":1}\n{"a":"ü"}\n{"a":null}\n'
    assert committed == {HERE: 3}


def test_names_follow_their_options(s3, tmp_path):
    given = {"topics.dir": "", "directory.delim": "_", "file.delim": "-", "filename.offset.zero.pad.width": "2"}
    put(s3(**given, **{"s3.compression.type": "gzip"}), records(1, 2, 3, start=7))
    assert tree(tmp_path) == ["t_partition=0_t-0-07.json.gz"]
    assert gzip.decompress((tmp_path / "t_partition=0_t-0-07.json.gz").read_bytes()) == b"1\n2\n3\n"


def test_a_task_that_begins_again_writes_the_same_files_again(s3, tmp_path):
    given = {"partitioner.class": "FieldPartitioner", "partition.field.name": "x", "s3.compression.type": "gzip"}
    batch = records(point(1), point(2), point(1), point(2), point(2), point(2), point(1), schema=POINT)
    assert put(s3(**given), batch) == {HERE: 6}
    before = {name: (tmp_path / name).read_bytes() for name in tree(tmp_path)}
    assert list(before) == [
        "topics/t/x=1/t+0+0000000000.json.gz",
        "topics/t/x=2/t+0+0000000001.json.gz",
        "topics/t/x=2/t+0+0000000003.json.gz",
    ]
    put(s3(**given), batch[:4], batch[4:])
    assert {name: (tmp_path / name).read_bytes() for name in tree(tmp_path)} == before


def test_avro_files_are_read_by_fastavro(s3, tmp_path):
    for codec in ("null", "deflate", "snappy"):
        task = s3(**{"format.class": "AvroFormat", "avro.codec": codec, "topics.dir": codec})
        put(task, records(point(1, "a"), point(2), point(3), schema=POINT))
        content = (tmp_path / f"{codec}/t/partition=0/t+0+0000000000.avro").read_bytes()
        found = list(fastavro.reader(io.BytesIO(content)))
        assert found == [{"x": 1, "name": "a"}, {"x": 2, "name": None}, {"x": 3, "name": None}]


def test_parquet_files_have_a_column_for_each_field(s3, tmp_path):
    inner = data.struct([("b", data.BYTES)], optional=True)
    schema = data.struct([
        ("day", data.DATE_SCHEMA), ("at", data.TIMESTAMP_SCHEMA), ("d", data.decimal(2)), ("s", inner),
        ("l", data.array(data.INT64)), ("m", data.map_of(data.STRING, data.BOOLEAN)),
    ])  # fmt: skip
    value = data.Struct.of(
        schema, day=data.Instant(86_400_000), at=data.Instant(1), d=data.Decimal("1.50"), l=[1, 2], m={"k": True}
    )
    put(s3(**{"format.class": "ParquetFormat", "flush.size": "2"}), records(value, value, schema=schema))
    table = pq.read_table(tmp_path / "topics/t/partition=0/t+0+0000000000.snappy.parquet", partitioning=None)
    assert [str(each.type) for each in table.schema][:5] == [
        "date32[day]", "timestamp[ms, tz=UTC]", "decimal128(38, 2)", "struct<b: binary not null>",
        "list<element: int64 not null>",
    ]  # fmt: skip
    row = table.slice(1).to_pylist()[0]
    assert (str(row["day"]), str(row["d"]), row["s"], row["l"], row["m"]) == (
        "1970-01-02",
        "1.50",
        None,
        [1, 2],
        [("k", True)],
    )


def test_bytes_stand_behind_one_another_with_the_separator(s3, tmp_path):
    given = {"format.class": "ByteArrayFormat", "format.bytearray.separator": "|", "format.bytearray.extension": ".raw"}
    put(s3(**given), records(b"a", b"b", b"c"))
    assert (tmp_path / "topics/t/partition=0/t+0+0000000000.raw").read_bytes() == b"a|b|c|"


def test_hourly_folders_and_an_interval_by_the_records_time(s3, tmp_path):
    given = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.HourlyPartitioner", "locale": "en-US",
        "timezone": "UTC", "timestamp.extractor": "Record", "rotate.interval.ms": "600000",
    }  # fmt: skip
    first, later = 1_795_000_000_000, 1_795_000_000_000 + 600_000
    assert put(s3(**given), records(1, 2, time=first), records(3, start=2, time=later)) == {HERE: 2}
    assert tree(tmp_path) == ["topics/t/year=2026/month=11/day=18/hour=11/t+0+0000000000.json"]


def test_a_refused_record_costs_itself_alone_and_its_file_goes_on(s3, tmp_path):
    batch = records(point(1), None, point(2), point(3), schema=POINT)
    batch[1].value_schema = None
    with pytest.raises(RefusedRecords, match="the value is null: set behavior") as caught:
        put(s3(), batch)
    assert [record.offset for record, _ in caught.value.refused] == [1]
    assert tree(tmp_path) == ["topics/t/partition=0/t+0+0000000000.json"]
    assert put(s3(**{"behavior.on.null.values": "IGNORE"}), records(None, None)) == {HERE: 2}


def test_a_record_that_a_transformation_sent_to_another_topic_is_refused(s3):
    moved = records(1)[0].with_topic("elsewhere")
    with pytest.raises(RefusedRecords, match="so the topic must stay"):
        put(s3(), [moved])


class Away:
    """A store that does not answer for some calls."""

    def __init__(self, store, times):
        self.store, self.times = store, times

    def open_output(self, name):
        self.times -= 1
        if self.times >= 0:
            raise StoreUnreachable("away")
        return self.store.open_output(name)


def test_records_that_come_again_after_the_store_was_away_are_taken_once_and_refused_ones_are_told(
    s3, tmp_path, monkeypatch
):
    store = Away(LocalStore(tmp_path), 2)
    monkeypatch.setattr(connectors, "_bucket", lambda options: store)
    task, batch = s3(), records(1, None, 2, 3, 4, 5, 6)

    async def story():
        await task.open([HERE])
        for _ in range(2):
            with pytest.raises(RetriableException):
                await task.put(batch)
        assert await task.flush() == {HERE: 1}  # nobody was told of the record at offset 1
        with pytest.raises(RefusedRecords) as caught:
            await task.put(batch)
        assert [record.offset for record, _ in caught.value.refused] == [1]
        assert await task.flush() == {HERE: 7}
        await task.close()

    asyncio.run(story())
    assert [(tmp_path / name).read_text() for name in tree(tmp_path)] == ["1\n2\n3\n", "4\n5\n6\n"]


def test_a_partition_that_is_read_again_from_before_begins_its_files_anew(s3, tmp_path):
    put(s3(), records(1, 2), records(1, 2), records(3, start=2))
    assert (tmp_path / "topics/t/partition=0/t+0+0000000000.json").read_text() == "1\n2\n3\n"


def test_the_hdfs_sink_names_files_by_both_offsets_and_goes_on_behind_them(tmp_path):
    assert put(hdfs(tmp_path), records(*range(4))) == {HERE: 3}
    assert put(hdfs(tmp_path), records(*range(7))) == {HERE: 6}
    assert tree(tmp_path) == [f"topics/t/partition=0/t+0+000000000{a}+000000000{b}.json" for a, b in ((0, 2), (3, 5))]
    assert (tmp_path / tree(tmp_path)[1]).read_text() == "3\n4\n5\n"


def test_files_that_were_noted_get_their_names_and_those_that_were_not_are_removed(tmp_path, monkeypatch):
    batch = records(point(1), point(2), point(1), schema=POINT)
    given = {"partitioner.class": "FieldPartitioner", "partition.field.name": "x"}
    monkeypatch.setattr(LocalStore, "reveal", lambda store, moves: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        put(hdfs(tmp_path, **given), batch)
    monkeypatch.undo()
    (tmp_path / "topics/+tmp/t/0/left.json").write_text("half")
    assert not list(tmp_path.rglob("t+0+*"))
    assert put(hdfs(tmp_path, **given), batch) == {HERE: 3}
    assert tree(tmp_path) == [
        "topics/t/x=1/t+0+0000000000+0000000002.json",
        "topics/t/x=2/t+0+0000000001+0000000001.json",
    ]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"format.class": "JsonFromat"}, "JsonFromat is unknown .did you mean JsonFormat"),
        ({"format.class": "com.example.JsonFormat"}, "Confluent's alone: give JsonFormat"),
        ({"partitioner.class": "TimeBasedPartitioner"}, "timezone: folders and schedules by time need it"),
        ({"partitioner.class": "FieldPartitioner"}, "name the fields"),
        ({"path.format": "qqqq"}, "the letter q is unknown"),
        ({"timezone": "Vienna"}, "give a name such as UTC"),
        ({"timestamp.extractor": "Recrd"}, "did you mean Record"),
        ({"flush.size": "0"}, "at least 1"),
        ({"schema.compatibility": "BACKWARD"}, "schemas are not projected here"),
        ({"store.kafka.keys": "true"}, "leave it out"),
    ],
)
def test_an_option_that_cannot_be_kept_is_refused(given, fault):
    with pytest.raises(ConfigException, match=fault):
        S3SinkConnector.tasks({"s3.bucket.name": "b", "flush.size": "3", **JSON, **given}, 1)


@pytest.mark.parametrize(
    ("url", "fault"),
    [(None, "set store.url"), ("s3://b/x", "there is S3SinkConnector"), ("hdsf://h:1/x", "did you mean hdfs")],
)
def test_the_hdfs_sink_writes_to_hdfs_and_local_folders(url, fault):
    with pytest.raises(ConfigException, match=fault):
        HdfsSinkConnector.tasks({"hdfs.url": url} if url else {}, 1)


def test_json_of_a_struct_is_what_json_converter_writes(s3, tmp_path):
    put(s3(), records(point(1, 'q"'), point(2), point(3), schema=POINT))
    lines = (tmp_path / "topics/t/partition=0/t+0+0000000000.json").read_text().splitlines()
    assert [json.loads(line) for line in lines][:2] == [{"x": 1, "name": 'q"'}, {"x": 2, "name": None}]
    assert lines[0] == '{"x":1,"name":"q\\""}'
