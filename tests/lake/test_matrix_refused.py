"""A value that its column cannot hold whole is one dead letter, whatever lies beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.lake.in_process import Load
from tests.lake.matrix_cases import PROTO, P, _at, _message, avro_payload, avro_record
from tests.lake.matrix_readers import FORMATS

NEIGHBOURS = 40
"""More rows than are read one by one."""


@dataclass(frozen=True)
class Refused:
    """A field `v`, a value that its column holds, and one that it does not, with the reason."""

    values: str
    schema: str
    good: bytes
    bad: bytes
    reason: str


def _avro(logical: str, good: int, bad: int, kind: str = "long") -> Refused:
    field = {"type": kind, "logicalType": logical}
    raw = avro_record(kind)
    good_bytes, bad_bytes = (avro_payload(raw, {"v": value, "id": 0}) for value in (good, bad))
    return Refused("avro", avro_record(field), good_bytes, bad_bytes, "v: a day or a time outside the years 1 to 9999")


def _proto(field: str, good: Any, bad: Any) -> Refused:
    schema = f'syntax = "proto3"; {PROTO} message Row {{ {field} int32 id = 100; }}'
    payloads = []
    for fill in (good, bad):
        row = _message(schema)()
        fill(row)
        payloads.append(row.SerializeToString())
    return Refused("protobuf", schema, *payloads, "v: a Timestamp of 1789 nanoseconds")


def _json(kind: Any, good: str, bad: str, reason: str) -> Refused:
    schema = json.dumps({"type": "object", "properties": {"v": kind}})
    return Refused("json", schema, f'{{"v":{good}}}'.encode(), f'{{"v":{bad}}}'.encode(), reason)


def _added(nanos: int) -> Any:
    return lambda row: row.v.add(seconds=1, nanos=nanos)


def _entry(nanos: int) -> Any:
    def fill(row: Any) -> None:
        row.v["a"].nanos = nanos

    return fill


TIME = {"type": "string", "format": "date-time"}
FINER = "no digits beyond microseconds"
CASES = {
    "Timestamp": _proto(f"{P}Timestamp v = 1;", _at(1, 1000), _at(1, 1789)),
    "Timestamp in a list": _proto(f"repeated {P}Timestamp v = 1;", _added(1000), _added(1789)),
    "Timestamp in a map": _proto(f"map<string, {P}Timestamp> v = 1;", _entry(1000), _entry(1789)),
    "date-time": _json(TIME, '"2026-01-01T00:00:00.123456000Z"', '"2026-01-01T00:00:00.123456789Z"', FINER),
    "date-time in a list": _json(
        {"type": "array", "items": TIME}, '["2026-01-01T00:00:00.5+01:00"]', '["2026-01-01T00:00:00.0000001Z"]', FINER
    ),
    "date-time after the last day": _json(TIME, '"9999-12-31T23:59:59Z"', '"9999-12-31T23:59:59-02:00"', "is no time"),
    "date before the first day": _json(
        {"type": "string", "format": "date"}, '"0001-01-01"', '"0000-12-31"', "is no date"
    ),
    "whole number in a number": _json({"type": "number"}, "9007199254740994", "9007199254740993", "a double cannot"),
    "half in an integer": _json(
        {"type": "integer"}, "9007199254740993.0", "9007199254740993.5", "where an integer is declared"
    ),
    "Avro date": _avro("date", 0, 2**31 - 1, "int"),
    "Avro timestamp-millis": _avro("timestamp-millis", 0, 253_402_300_800_000),
    "Avro timestamp-micros": _avro("timestamp-micros", 0, -62_135_596_800_000_001),
    "Avro local-timestamp-millis": _avro("local-timestamp-millis", 0, 253_402_300_800_000),
    "Avro local-timestamp-micros": _avro("local-timestamp-micros", 0, (1 << 63) - 1),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_a_value_that_its_column_cannot_hold_is_one_dead_letter_beside_any_neighbours(
    name: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    case = CASES[name]
    load = Load(monkeypatch, tmp_path, format, values=case.values, schema=case.schema, dead_letter="bad")
    load.round([case.bad])
    load.round([*[case.good] * NEIGHBOURS, case.bad])
    assert len(load.letters) == 2 and all(case.reason in letter for letter in load.letters), load.letters
    assert sum(load.committed.rows.values()) == NEIGHBOURS
