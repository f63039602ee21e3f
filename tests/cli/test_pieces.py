"""The parts of the tools that need no broker: Java's map order, line readers, templates, tables, times."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from ottla.cli import command
from ottla.cli.consume import as_json, template
from ottla.cli.faults import Misuse
from ottla.cli.javamap import hash_order, partition_hash, string_hash
from ottla.cli.kafka.console_consumer import Formatter, deserializer
from ottla.cli.kafka.console_producer import LineReader, LineRecord
from ottla.cli.kafka.consumer_perf import date_text
from ottla.cli.kafka.get_offsets import _by_rules
from ottla.cli.kafka.groups_reset import parse_datetime
from ottla.cli.kafka.topics import include_pattern
from ottla.cli.topic import _warn_of_minimum
from ottla.client.model import ConsumedRecord


def a_record(**parts: object) -> ConsumedRecord:
    values: dict[str, object] = {
        "topic": "t",
        "partition": 2,
        "offset": 9,
        "timestamp": 1700000000000,
        "timestamp_type": 0,
        "key": b"k",
        "value": b"v",
        "headers": (),
        "leader_epoch": 0,
        **parts,
    }
    return ConsumedRecord(**values)  # type: ignore[arg-type]


def test_hashes_are_javas() -> None:
    assert string_hash("hello") == 99162322
    assert string_hash("") == 0
    assert string_hash("😀") == (31 * 0xD83D + 0xDE00)
    assert partition_hash(("t1", 0)) == (31 * 31 + string_hash("t1")) % 2**32


def test_keys_come_out_in_the_order_of_a_java_hash_map() -> None:
    """Apache Kafka 4.3.1's kafka-topics and kafka-configs printed these topics in this order."""
    topics = ["__consumer_offsets", "a.b", "aio1", "auto1", "t1"]
    assert hash_order(topics, string_hash, 5) == ["a.b", "t1", "__consumer_offsets", "aio1", "auto1"]
    assert hash_order(topics, string_hash) == ["a.b", "aio1", "t1", "__consumer_offsets", "auto1"]


def test_lines_are_split_as_kafkas_line_reader_splits_them() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.parse(b"h1:v1,h2:NULL\tkey\tval", 1) == LineRecord(b"key", b"val", [("h1", b"v1"), ("h2", None)])
    assert reader.parse(b"NULL\tNULL\tNULL", 1) == LineRecord(None, None, [])
    assert LineReader({}).parse(b"a\tb", 1) == LineRecord(None, b"a\tb", [])
    with pytest.raises(Misuse, match="No key separator found on line number 7: 'x'"):
        LineReader({"parse.key": "true"}).parse(b"x", 7)
    lenient = LineReader({"parse.key": "true", "ignore.error": "true"})
    assert lenient.parse(b"x", 1) == LineRecord(None, b"x", [])


def test_records_are_printed_as_kafkas_formatter_prints_them() -> None:
    import io

    every = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "headers", "key")}
    out = io.BytesIO()
    Formatter(every).write(a_record(headers=(("h", b"x"), ("n", None)), value=None), out)
    Formatter({**every, "key.separator": "|", "print.value": "false"}).write(a_record(timestamp_type=1), out)
    Formatter({"print.timestamp": "true"}).write(a_record(timestamp=-1), out)
    assert out.getvalue().decode().splitlines() == [
        "CreateTime:1700000000000\tPartition:2\tOffset:9\th:x,n:null\tk\tnull",
        "LogAppendTime:1700000000000|Partition:2|Offset:9|NO_HEADERS|k",
        "NO_TIMESTAMP\tv",
    ]


def test_deserializers_go_by_the_names_of_kafkas_classes() -> None:
    assert deserializer("org.apache.kafka.common.serialization.IntegerDeserializer")(b"\xff\xff\xff\xfe") == b"-2"
    assert deserializer("LongDeserializer")(bytes(7) + b"\x05") == b"5"
    assert deserializer("FloatDeserializer")(b"\x3d\xcc\xcc\xcd") == b"0.1"
    assert deserializer("DoubleDeserializer")(b"\x41\x63\x12\xd0\x00\x00\x00\x00") == b"1.0E7"
    assert deserializer(None)(b"\x00") == b"\x00"
    with pytest.raises(Misuse, match="IntegerDeserializer is not 4"):
        deserializer("IntegerDeserializer")(b"x")
    with pytest.raises(Misuse, match="Unknown deserializer"):
        deserializer("com.example.Mine")


def test_templates_and_json_tell_all_of_a_record() -> None:
    record = a_record(headers=(("h", b"x"),))
    assert template("%t %p %o %k=%v %h %T %S 100%%\\n")(record) == b"t 2 9 k=v h=x 1700000000000 1 100%\n"
    assert template("%v")(a_record(value=None)) == b"null"
    with pytest.raises(Misuse, match="%q means nothing"):
        template("%q")
    told = json.loads(as_json(a_record(value=b"\xff", key=None, headers=(("h", None),))))
    assert told["value_base64"] == "/w=="
    assert "value" not in told
    assert (told["key"], told["headers"]) == (None, [["h", None]])


def test_topic_filters_are_kafkas() -> None:
    pattern = include_pattern(' "a,b.*" ')
    assert [name for name in ("a", "bcd", "ab") if pattern.fullmatch(name)] == ["a", "bcd"]
    with pytest.raises(Misuse, match="invalid regex"):
        include_pattern("(")


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [
        ("t", [("t", 0), ("t", 1), ("t", 2)]),
        ("t:1", [("t", 1)]),
        ("t:1-", [("t", 1), ("t", 2)]),
        ("t:-2,u:0", [("t", 0), ("t", 1), ("u", 0)]),
        (":2", [("t", 2), ("u", 2)]),
    ],
)
def test_topic_partition_rules_end_before_their_upper_bound(rules: str, chosen: list[tuple[str, int]]) -> None:
    wanted = _by_rules(rules)
    assert [(name, index) for name in "tu" for index in range(3) if wanted(name, index)] == chosen


def test_times_are_read_in_utc_and_written_as_java_writes_them() -> None:
    assert parse_datetime("2026-01-31T12:00:00.250") == round(
        datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC).timestamp() * 1000
    )
    assert parse_datetime("2026-01-31T14:00:00+02:00") == parse_datetime("2026-01-31T12:00:00Z")
    with pytest.raises(Misuse, match="2026-01-31T"):
        parse_datetime("yesterday")
    moment = datetime(2026, 1, 31, 12, 3, 4, 56_000).timestamp()
    assert date_text(moment, "yyyy-MM-dd HH:mm:ss:SSS") == "2026-01-31 12:03:04:056"


def test_tables_are_aligned_and_plain_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    command.print_table(["NAME", "COUNT"], [["a", 1], ["longer", 100], ["none", None]])
    assert capsys.readouterr().out == "NAME    COUNT\na           1\nlonger    100\nnone        -\n"


@pytest.mark.parametrize("minimum", ["2", "3"])
def test_a_minimum_of_all_replicas_that_was_asked_for_is_warned_of(minimum, capsys):
    _warn_of_minimum("t", {"min.insync.replicas": minimum}, 2)
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert f"topic t has 2 replicas and min.insync.replicas={minimum}" in said.err


@pytest.mark.parametrize(
    ("configs", "replicas"), [({}, 2), ({"min.insync.replicas": "1"}, 1), ({"min.insync.replicas": "2"}, 3)]
)
def test_other_minimums_are_not_warned_of(configs, replicas, capsys):
    _warn_of_minimum("t", configs, replicas)
    assert capsys.readouterr() == ("", "")
