"""Debezium's change events in Avro: days, times and decimals become what their schema says, as in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from tests.lake.in_process import Load
from tests.lake.matrix_cases import avro_payload
from tests.lake.matrix_readers import READERS, as_held, columns_of, seen

from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema

DAY, MICROS = "io.debezium.time.Date", "io.debezium.time.MicroTimestamp"
VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}


def _named(kind: str, name: str) -> Any:
    return ["null", {"type": kind, "connect.name": name}]


def _schema(**fields: Any) -> str:
    made = [{"name": "id", "type": "int"}, *({"name": name, "type": kind} for name, kind in fields.items())]
    row = {"type": "record", "name": "Value", "fields": made, "connect.name": "shop.orders.Value"}
    envelope = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ]
    return json.dumps({"type": "record", "name": "Envelope", "fields": envelope})


def _event(schema: str, **row: Any) -> bytes:
    return avro_payload(schema, {"before": None, "after": {"id": 1, **row}, "op": "c"})


@pytest.fixture(params=["delta", "iceberg"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Load]:
    return lambda **options: Load(
        monkeypatch, tmp_path, request.param, values="avro", key="id", debezium=True, dead_letter="bad", **options
    )


def test_values_of_an_event_are_what_their_schema_says(make: Callable[..., Load]):
    schema = _schema(
        day=_named("int", DAY),
        at=_named("long", MICROS),
        of_day=_named("long", "io.debezium.time.MicroTime"),
        zoned=_named("string", "io.debezium.time.ZonedTimestamp"),
        amount=["null", VARIABLE],
        nanos=_named("long", "io.debezium.time.NanoTimestamp"),
        plain="int",
    )
    load = make(schema=schema)
    row = {
        "day": 20_000,
        "at": 1_700_000_000_123_456,
        "of_day": 3_600_000_001,
        "zoned": "2026-01-01T00:00:00.5Z",
        "amount": {"scale": 2, "value": b"\x30\x39"},
        "nanos": 1_700_000_000_123_456_789,
        "plain": 20_000,
    }
    load.round([_event(schema, **row)])
    load.round([_event(schema, **{**row, "plain": 1})])
    format = load.settings.shape.format
    for reader, read in READERS[format](load).items():
        table = read()
        assert columns_of(table, "day") == [date(2024, 10, 4)], reader
        assert columns_of(table, "at") == [datetime(2023, 11, 14, 22, 13, 20, 123456)], reader
        assert columns_of(table, "of_day") == [seen(as_held(time(1, 0, 0, 1), format))], reader
        assert columns_of(table, "amount") == ["123.45"], reader
        assert columns_of(table, "nanos") == [row["nanos"]], reader
        assert columns_of(table, "plain") == [1], reader
    assert load.letters == []


def test_a_schema_that_gives_a_field_another_meaning_is_refused_by_name(make: Callable[..., Load]):
    one, two = _schema(v=_named("int", DAY)), _schema(v=_named("long", MICROS))
    load = make(registry="http://registry")
    load.registry({number: WriterSchema("AVRO", text) for number, text in ((1, one), (2, two))})
    load.round(framed(1, [_event(one, v=1)]).to_pylist())
    load.round(framed(2, [_event(two, v=1_700_000_000_123_456)]).to_pylist())
    assert len(load.letters) == 1
    assert f"field v: its schema says {MICROS}, where the column holds {DAY}" in load.letters[0]
    (read, *_) = READERS[load.settings.shape.format](load).values()
    assert columns_of(read()) == [date(1970, 1, 2)]
