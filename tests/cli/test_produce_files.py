"""`ottla produce` reads files as people have them, and says what it read and where it wrote."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from conftest import Ottla

ROWS = [{"id": "1", "name": "Anna, B"}, {"id": "2", "name": "two\r\nlines"}]
CSV = b'id,name\r\n1,"Anna, B"\r\n2,"two\r\nlines"\r\n'
JSON_LINES = b'{"id": 1, "user": {"name": "x"}, "n": 1.50}\n\n{"id": 2, "user": {"name": "y"}, "n": 9007199254740993}\n'


def read(ottla: Ottla, topic: str) -> list[dict[str, object]]:
    lines = ottla("consume", topic, "--from-beginning", "-e", "--format", "json").stdout
    return [json.loads(line) for line in lines.splitlines()]


def values(ottla: Ottla, topic: str) -> list[object]:
    return [record["value"] for record in read(ottla, topic)]


def test_rows_of_csv_become_objects_by_their_header_line(
    bootstrap: str, ottla: Ottla, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV)
    done = ottla("produce", name, str(path), "--key", "id")
    assert done.stderr == f"wrote 2 records to {name} (2 to partition 0) at {bootstrap}, from {path} (CSV)\n"
    assert [(record["key"], json.loads(str(record["value"]))) for record in read(ottla, name)] == [
        ("1", ROWS[0]),
        ("2", ROWS[1]),
    ]


def test_objects_of_json_lines_are_values_byte_by_byte(ottla: Ottla, name: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(JSON_LINES)
    assert ottla("produce", name, str(path), "--key", "user.name", "--header-field", "n=n").returncode == 0
    found = read(ottla, name)
    assert [record["value"] for record in found] == [line for line in JSON_LINES.decode().splitlines() if line]
    assert [record["key"] for record in found] == ["x", "y"]
    assert [record["headers"] for record in found] == [[["n", "1.50"]], [["n", "9007199254740993"]]]


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        (".gz", gzip.compress),
        (".zst", zstandard.ZstdCompressor().compress),
        (".lz4", lz4.frame.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
    ],
)
def test_packed_files_are_unpacked_and_truncated_ones_refused(
    ottla: Ottla, name: str, tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    whole, cut = tmp_path / f"people.csv{ending}", tmp_path / f"cut.csv{ending}"
    content = b"".join(b"%d,name of %d\n" % (number, number * 7919 % 10007) for number in range(20_000))
    whole.write_bytes(pack(CSV[:9] + content) + pack(b"last,one\n"))
    done = ottla("produce", name, str(whole))
    assert "wrote 20001 records" in done.stderr, done.stderr
    packed = pack(CSV[:9] + content)
    cut.write_bytes(packed[: len(packed) * 3 // 4])
    done = ottla("produce", f"{name}-cut", str(cut))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "ends early: the rest of the file is missing" in done.stderr
    written = len(values(ottla, f"{name}-cut")) if "nothing" not in done.stderr else 0
    assert (f"the {written} records before it are written" if written else "nothing is written") in done.stderr


def test_a_file_that_is_damaged_inside_is_one_sentence(ottla: Ottla, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    packed = bytearray(gzip.compress(CSV * 100))
    packed[-6] ^= 0xFF  # in the checksum
    path.write_bytes(packed)
    done = ottla("produce", name, str(path))
    assert (done.returncode, done.stderr.count("\n"), "is damaged" in done.stderr) == (1, 1, True), done.stderr


def test_lines_lose_a_byte_order_mark_and_their_returns(ottla: Ottla, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\xef\xbb\xbfthree")
    assert ottla("produce", name, str(path)).returncode == 0
    assert values(ottla, name) == ["one", "two", "\ufeffthree"]


def test_avro_and_parquet_files_become_objects(ottla: Ottla, name: str, tmp_path: Path) -> None:
    import datetime
    import decimal

    import fastavro
    import pyarrow as pa
    import pyarrow.parquet as pq

    day, price = datetime.date(9999, 12, 31), decimal.Decimal("12.50")
    row = {"id": 9007199254740993, "raw": b"\xff", "day": day, "price": price, "tags": {"a": "b"}, "none": None}
    shown = {"id": 9007199254740993, "raw": "/w==", "day": "9999-12-31", "price": "12.50", "tags": {"a": "b"}}
    types = {"day": pa.date32(), "price": pa.decimal128(6, 2), "tags": pa.map_(pa.string(), pa.string())}
    kinds = {"id": pa.int64(), "raw": pa.binary(), **types, "none": pa.string()}
    pq.write_table(pa.Table.from_pylist([row], pa.schema(list(kinds.items()))), tmp_path / "a.parquet")
    fields = [
        {"name": "id", "type": "long"},
        {"name": "raw", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "none", "type": ["null", "string"]},
    ]
    with (tmp_path / "a.avro").open("wb") as out:
        fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, [row], codec="deflate")
    done = ottla("produce", name, str(tmp_path / "a.avro"), str(tmp_path / "a.parquet"), "-k", "id")
    assert done.returncode == 0, done.stderr
    assert [json.loads(str(value)) for value in values(ottla, name)] == [{**shown, "none": None}] * 2
    assert {record["key"] for record in read(ottla, name)} == {"9007199254740993"}


def test_a_truncated_avro_file_says_how_many_records_are_written(ottla: Ottla, name: str, tmp_path: Path) -> None:
    import fastavro

    path = tmp_path / "a.avro"
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    with path.open("wb") as out:
        fastavro.writer(out, schema, ({"id": number} for number in range(50_000)))
    path.write_bytes(path.read_bytes()[:100_000])
    done = ottla("produce", name, str(path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    written = len(values(ottla, name))
    assert written
    assert f"the {written} records before it are written to {name}" in done.stderr


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("a.csv", b"a,b\n1,2\n3\n", "a.csv, line 3 has 1 field, and the header line has 2; the record before it is"),
        ("a.csv", b"a,a\n1,2\n", "the header line names 'a' twice"),
        ("a.csv", b"a,\n1,2\n", "field 2 of the header line has no name"),
        ("a.csv", b"a;b\n1;2\n", "--delimiter ';' would part it"),
        ("a.csv", b"a,b\n1,\xff\n", "line 2 is not text in UTF-8"),
        ("a.csv", b'a,b\n1,"x\n', "unexpected end of data"),
        ("a.csv", b"", "has no header line"),
        ("a.csv", b"\xff\xfea\x00", "text in UTF-16"),
        ("a.csv", b"PK\x03\x04....", "a zip archive"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', "line 2 is not a JSON object"),
        ("a.jsonl", b'{"a": 1}\n{"a": NaN}\n', "line 2 is not a JSON object (NaN is not a number of JSON)"),
        ("a.json", b'{\n  "a": 1\n}\n', "JSON lines have one object on each line"),
        ("a.parquet", b"hello", "is named as Parquet and is none"),
        ("a.bin", b"a\x00b", "is binary and of no format that is known"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    ottla: Ottla, name: str, tmp_path: Path, file: str, content: bytes, why: str
) -> None:
    (tmp_path / file).write_bytes(content)
    done = ottla("produce", name, str(tmp_path / file))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert why in done.stderr


def test_a_file_that_may_be_csv_or_lines_is_asked_about(ottla: Ottla, name: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"a,b\n1,2\n")
    assert "give --input csv or --input lines" in ottla("produce", name, str(path)).stderr
    assert ottla("produce", name, str(path), "--input", "lines").returncode == 0
    assert values(ottla, name) == ["a,b", "1,2"]


def test_standard_input_has_fields_where_an_option_names_one(ottla: Ottla, name: str) -> None:
    ottla("produce", name, "--key", "id", stdin='{"id": 7}\n')
    ottla("produce", name, "--key", "constant", stdin='{"id": 7}\n')
    ottla("produce", name, "--key", "id", stdin="id,n\n8,1\n")
    assert [record["key"] for record in read(ottla, name)] == ["7", "constant", "8"]


def test_records_as_consume_prints_them_are_not_taken_for_objects(ottla: Ottla, name: str, tmp_path: Path) -> None:
    ottla("produce", name, "x", "-k", "k")
    path = tmp_path / "records.jsonl"
    path.write_text(ottla("consume", name, "--from-beginning", "-e", "--format", "json").stdout)
    done = ottla("produce", name, str(path))
    assert (done.returncode, "--input json writes the record again" in done.stderr) == (1, True), done.stderr
    assert ottla("produce", name, str(path), "--input", "json").returncode == 0
    assert ottla("produce", name, str(path), "--input", "jsonl").returncode == 0
    assert values(ottla, name) == ["x", "x", path.read_text().strip()]


def test_words_that_may_be_files_or_values_are_asked_about(ottla: Ottla, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a\n1\n")
    for words, why in [
        ([str(path), "one"], "is a file and 'one' is none"),
        ([str(tmp_path / "b.csv")], "there is no file"),
        ([str(tmp_path)], "is a directory"),
        (["."], "is a directory"),
        (["pyproject.toml"], "is a file here, and may be a value"),
    ]:
        done = ottla("produce", name, *words)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    assert ottla("produce", name, "a.csv", str(path), "--values").returncode == 0
    assert ottla("produce", name, "http://x/y", "/index.html").returncode == 0
    assert values(ottla, name) == ["a.csv", str(path), "http://x/y", "/index.html"]


def test_old_times_are_warned_of_before_retention_takes_the_records(ottla: Ottla, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"at\n2015-03-01\n2015-03-02T10:00:00.5+01:00\n1425168000\n")
    done = ottla("produce", name, str(path), "--time", "at")  # the topic is made by this
    assert "records of 2015-03-01 are older than the topic" in done.stderr
    assert f"`ottla config set topic {name} retention.ms=-1` keeps them" in done.stderr
    ottla("topic", "create", f"{name}-kept", "-c", "retention.ms=-1")
    done = ottla("produce", f"{name}-kept", str(path), "--time", "at")
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
    times = [record["timestamp"] for record in read(ottla, f"{name}-kept")]
    assert times == [1425168000000, 1425286800500, 1425168000000]


def test_a_row_without_its_time_is_refused(ottla: Ottla, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"at": "soon"}\n')
    done = ottla("produce", name, str(path), "--time", "at")
    assert (done.returncode, "field at: 'soon' is no time" in done.stderr) == (1, True), done.stderr


def test_keys_of_files_go_where_the_same_keys_go_one_by_one(ottla: Ottla, name: str, tmp_path: Path) -> None:
    ottla("topic", "create", name, "-p", "3")
    path = tmp_path / "a.csv"
    path.write_text("id\n" + "".join(f"k{number}\n" for number in range(30)))
    done = ottla("produce", name, str(path), "-k", "id")
    assert "wrote 30 records" in done.stderr, done.stderr
    for number in range(0, 30, 10):
        ottla("produce", name, "x", "-k", f"k{number}")
    partitions: dict[object, set[object]] = {}
    for record in read(ottla, name):
        partitions.setdefault(record["key"], set()).add(record["partition"])
    assert all(len(found) == 1 for found in partitions.values())
    assert len({min(found, key=str) for found in partitions.values()}) == 3


def test_a_kcat_envelope_is_no_tombstone(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    for line, why in [
        ('{"topic":"t","partition":0,"offset":3,"key":"k","payload":"hello"}', "its member payload is unknown"),
        ('{"id": 1}', "no member value or value_base64"),
        ('{"value": "x", "vlaue": "y"}', "its member vlaue is unknown: did you mean value?"),
        ('{"value": "x", "value_base64": "eA=="}', "it has both value and value_base64"),
    ]:
        done = ottla("produce", name, "--input", "json", stdin=line + "\n")
        assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    assert values(ottla, name) == []
    assert ottla("produce", name, "--input", "json", stdin='{"key": "k", "value": null}\n').returncode == 0
    assert values(ottla, name) == [None]
