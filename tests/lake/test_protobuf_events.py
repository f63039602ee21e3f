"""Debezium's change events in Protobuf: the messages of Kafka Connect's converter become decimals, days and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.json_format import ParseDict
from tests.lake.in_process import Load
from tests.lake.matrix_readers import READERS, as_held, columns_of, seen

from ottla.formats.protoc import compiled
from ottla.formats.writer import WriterSchema

HEAD = """syntax = "proto3";
import "confluent/meta.proto"; import "confluent/type/decimal.proto";
import "google/type/date.proto"; import "google/type/timeofday.proto";
message Envelope { Value before = 1; Value after = 2; string op = 3; }
message VariableScaleDecimal { int32 scale = 1; bytes value = 2; }
"""
ROW = """message Value { int32 id = 1;
confluent.type.Decimal amount = 2
  [(confluent.field_meta) = { params: [{ key: "precision", value: "5" }, { key: "scale", value: "2" }] }];
confluent.type.Decimal unsized = 3; google.type.Date day = 4; google.type.TimeOfDay at = 5;
VariableScaleDecimal any = 6; int32 days = 7 [(confluent.field_meta) = {
  params: [{ key: "connect.name", value: "io.debezium.time.Date" }] }]; repeated google.type.Date holidays = 8; }
"""
DIGITS = "MDk="  # 12345
DAY, AT = {"year": 2024, "month": 10, "day": 4}, {"hours": 1, "nanos": 1000}


@cache
def _envelope() -> Any:
    file = compiled(WriterSchema("PROTOBUF", HEAD + ROW))
    return message_factory.GetMessageClass(file.message_types_by_name["Envelope"])


def _event(**row: Any) -> bytes:
    found: bytes = ParseDict({"after": {"id": 1, **row}, "op": "c"}, _envelope()()).SerializeToString()
    return found


@pytest.fixture(params=["delta", "iceberg"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Load]:
    return lambda **options: Load(
        monkeypatch, tmp_path, request.param, values="protobuf", key="id", debezium=True, dead_letter="bad", **options
    )


def test_decimals_days_and_times_of_an_event_are_what_their_messages_say(make: Callable[..., Load]):
    load = make(schema=HEAD + ROW)
    decimal = {"value": DIGITS, "precision": 5, "scale": 2}
    row = {"amount": decimal, "unsized": decimal, "day": DAY, "at": AT, "any": {"scale": 1, "value": DIGITS}}
    load.round([_event(**row, days=20_000, holidays=[DAY]), _event(id=2)])
    format = load.settings.shape.format
    for reader, read in READERS[format](load).items():
        table = read()
        assert columns_of(table, "amount") == [Decimal("123.45"), None], reader
        assert columns_of(table, "unsized") == ["123.45", None], reader
        assert columns_of(table, "day") == [date(2024, 10, 4), None], reader
        assert columns_of(table, "at") == [seen(as_held(time(1, 0, 0, 1), format)), None], reader
        assert columns_of(table, "any") == ["1234.5", None], reader
        assert columns_of(table, "days") == [date(2024, 10, 4), date(1970, 1, 1)], reader
    assert load.letters == []


def test_columns_that_an_earlier_version_made_of_such_messages_keep_their_types(make: Callable[..., Load]):
    load = make(schema=HEAD + ROW)
    with load.earlier("ottla.formats.protobuf_columns._meaning", lambda field: ""):
        load.round([_event(day=DAY)])
    load.round([_event(day=DAY)])
    (read, *_) = READERS[load.settings.shape.format](load).values()
    assert columns_of(read(), "day") == [seen(DAY)] and load.letters == []


def test_values_that_are_no_day_time_or_decimal_of_the_scale_are_dead_letters(make: Callable[..., Load]):
    load = make(schema=HEAD + ROW)
    load.round(
        [
            _event(day={"year": 2024, "month": 10}),
            _event(at={"hours": 24}),
            _event(at={"nanos": 1}),
            _event(amount={"value": DIGITS, "scale": 3}),
            _event(id=2),
        ]
    )
    assert [each.partition(":")[0].rpartition(" ")[2] for each in load.letters] == ["day", "at", "at", "amount"]
    (read, *_) = READERS[load.settings.shape.format](load).values()
    assert columns_of(read(), "id") == [2]
