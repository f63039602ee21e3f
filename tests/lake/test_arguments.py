"""Wrong arguments of the command line give one sentence and exit code 2, not a traceback."""

import json

import pyarrow as pa
import pytest

from ottla.cli.main import main
from ottla.lake.settings import load_settings
from ottla.lake.stores import LakeRefused
from ottla.lake.types import EMPTY


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-b", "nonsense"], "invalid bootstrap address 'nonsense'"),
        (["-b", "host:²"], "invalid bootstrap address 'host:²'"),
        (["--max-offsets", "²"], "not a positive number: ²"),
        (["--metrics-port", "²"], "not a port: ²"),
        (["--target-size", "²m"], "not a size: '²m'"),
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
    with pytest.raises(LakeRefused, match="--from ²: write earliest, latest"):
        load_settings(["t"], "lake", {"beginning": "²"})


def test_a_pattern_that_is_no_regular_expression_is_told_in_a_sentence():
    with pytest.raises(LakeRefused, match=r"--pattern \[: it is no regular expression: unterminated character set"):
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
