"""Wrong arguments of the command line give one sentence and exit code 2, not a traceback."""

import json

import pyarrow as pa
import pytest

from ottla.cli.main import main
from ottla.lake.columns.types import EMPTY
from ottla.lake.columns.values import ValueKind
from ottla.lake.rounds.settings import load_settings
from ottla.stores import LakeRefused


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-b", "nonsense"], "invalid bootstrap address 'nonsense'"),
        (["-b", "host:²"], "invalid bootstrap address 'host:²'"),
        (["--max-offsets", "²"], "not a positive number: ²"),
        (["--metrics-port", "²"], "not a port: ²"),
        (["--target-size", "²m"], "'²m' is not a size"),
    ],
)
def test_a_wrong_argument_is_told_in_a_sentence(tmp_path, capsys, arguments, why):
    try:
        code = main(["lake", "load", "t", "--to", str(tmp_path / "lake"), *arguments])
    except SystemExit as left:
        code = left.code
    told = capsys.readouterr().err
    assert code == 2 and why in told and "Traceback" not in told


def test_a_beginning_that_is_no_number_is_told_in_a_sentence():
    with pytest.raises(LakeRefused, match=r"--from: .* is not a time: .* or write earliest, latest"):
        load_settings(["t"], "lake", {"beginning": "²"})


def test_a_pattern_that_is_no_regular_expression_is_told_in_a_sentence():
    with pytest.raises(LakeRefused, match=r"--pattern \[ is not a regular expression: unterminated character set"):
        load_settings([], "lake", {"pattern": "["})


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("first", [{"x": 1}, ["UA"]])
def test_an_object_or_array_in_a_field_that_divides_the_lake_is_a_dead_letter_also_in_the_first_record(first, flatten):
    settings = load_settings(["t"], "lake", {"json": True, "partition_by": "day,carrier", "flatten": flatten})
    documents = [{"carrier": first}, {"carrier": "UA"}, {"carrier": "B6", "id": 1}]
    values = pa.array([json.dumps(each).encode() for each in documents], pa.binary())
    reader = settings.values.reader("t")
    sampled = reader.read(values, EMPTY)
    assert [(row, "where the lake is divided by it" in why) for row, why in sampled.faults] == [(0, True)]
    block = reader.read(values, sampled.wanted)
    assert block.table.to_pylist() == [{"carrier": "UA", "id": None}, {"carrier": "B6", "id": 1}]
    assert [row for row, _ in block.faults] == [0]


AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "long"} for name in "nm"]})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ValueKind("json", without=frozenset("n")), b'{"n":1,"m":2}'),
        (ValueKind("json", without=frozenset("n")), b'{"n":"text","m":2}'),
        (ValueKind("json", only=frozenset("m")), b'{"n":1,"m":2}'),
        (ValueKind("avro", schema=AVRO, without=frozenset("n")), b"\x02\x04"),
    ],
)
def test_a_field_that_is_left_out_is_null_also_where_earlier_rows_have_it(kind, value):
    schema = pa.schema([("n", pa.int64()), ("m", pa.int64())])
    block = kind.reader("t").read(pa.array([value], pa.binary()), schema)
    assert block.table is not None and not block.faults and block.wanted == schema
    assert block.table.to_pylist() == [{"n": None, "m": 2}]


def test_columns_that_come_stand_beside_those_that_are_left_out():
    schema = pa.schema([("n", pa.int64()), ("m", pa.int64())])
    reader = ValueKind("json", without=frozenset("n")).reader("t")
    block = reader.read(pa.array([b'{"n":"text","m":2.5,"o":1}'], pa.binary()), schema)
    assert block.table is None and {field.name: str(field.type) for field in block.wanted} == {
        "n": "int64",
        "m": "double",
        "o": "int64",
    }


def test_files_that_s3_cannot_copy_are_not_made():
    options = {"target_size": "5g", "format": "parquet"}
    with pytest.raises(LakeRefused, match="--target-size: S3 copies files"):
        load_settings(["t"], "s3://bucket/lake", options)
    assert load_settings(["t"], "s3://bucket/lake", {**options, "format": "delta"}).target_bytes == 5 << 30
    assert load_settings(["t"], "s3://bucket/lake", {**options, "target_size": "4g"}).target_bytes == 4 << 30
