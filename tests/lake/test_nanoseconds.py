"""Times with digits beyond microseconds, as Go has them: refused, cut or kept, as `--nanoseconds` says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.lake.in_process import Load
from tests.lake.matrix_cases import PROTO, P, _at, _message
from tests.lake.matrix_readers import READERS, columns_of, seen

from ottla.lake import LakeRefused
from ottla.lake.rounds.settings import load_settings

SCHEMA = f'syntax = "proto3"; {PROTO} message Row {{ {P}Timestamp v = 1; int32 id = 100; }}'
TIMES = json.dumps({"type": "object", "properties": {"v": {"type": "string", "format": "date-time"}}})
CUT = datetime(1970, 1, 1, 0, 0, 1, 1, UTC)


def _row(nanos: int, seconds: int = 1) -> bytes:
    row: Any = _message(SCHEMA)()
    _at(seconds, nanos)(row)
    return bytes(row.SerializeToString())


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Load]:
    return lambda values, schema, **options: Load(
        monkeypatch, tmp_path, request.param, values=values, schema=schema, dead_letter="bad", **options
    )


def _values(load: Load) -> list[Any]:
    (read, *_) = READERS[load.settings.shape.format](load).values()
    return columns_of(read())


def test_finer_digits_are_cut_where_that_is_asked_for(make: Callable[..., Load]):
    load = make("protobuf", SCHEMA, nanoseconds="cut")
    load.round([_row(1789), _row(0)])
    assert _values(load)[0] == seen(CUT) and load.letters == []


def test_a_date_time_of_json_schema_is_cut_too(make: Callable[..., Load]):
    load = make("json", TIMES, nanoseconds="cut")
    load.round([b'{"v": "1970-01-01T00:00:01.000001789Z"}'])
    assert _values(load) == [seen(CUT)] and load.letters == []


def test_kept_nanoseconds_keep_every_digit_and_the_years_that_they_reach(make: Callable[..., Load]):
    load = make("protobuf", SCHEMA, nanoseconds="keep")
    load.round([_row(1789), _row(0, seconds=253_402_300_799)])
    assert _values(load) == [1_000_001_789]
    assert len(load.letters) == 1 and "outside the years 1678 to 2261" in load.letters[0]


def test_the_reason_of_a_refused_time_names_the_option(make: Callable[..., Load]):
    load = make("protobuf", SCHEMA)
    load.round([_row(1789)])
    (reason,) = load.letters
    assert reason.endswith("no digits beyond microseconds (--nanoseconds cut drops them)")


def test_a_column_of_microseconds_takes_no_kept_nanoseconds(make: Callable[..., Load]):
    load = make("protobuf", SCHEMA)
    load.round([_row(1000)])
    load.goes_on(nanoseconds="keep")
    load.round([_row(2000), _row(1789)])
    assert [str(each) for each in _values(load)] == [str(seen(CUT)), str(seen(CUT.replace(microsecond=2)))]
    (reason,) = load.letters
    assert "v: a time in nanoseconds" in reason and "--nanoseconds cut" in reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"json": True, "nanoseconds": "cut"}, "--nanoseconds is for values whose schema has times"),
        ({"values": "avro", "schema": "x", "nanoseconds": "keep"}, "--nanoseconds keep is for Protobuf"),
        ({"values": "avro", "schema": "x", "nanoseconds": "kut"}, "did you mean cut"),
    ],
)
def test_what_the_option_cannot_do_is_refused(tmp_path: Path, options: dict[str, Any], reason: str):
    with pytest.raises(LakeRefused, match=reason):
        load_settings(["t"], tmp_path, options)
