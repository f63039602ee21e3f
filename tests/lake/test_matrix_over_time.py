"""A field gets another type in the schema's next version: all values stay what they were, or one row is a bad one."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from tests.lake.in_process import TOPIC, Load
from tests.lake.matrix_cases import LAST, avro_payload, avro_record, every_avro_type
from tests.lake.matrix_readers import FORMATS, READERS, as_held, columns_of, seen

from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema
from ottla.lake.columns.exact import with_notes
from ottla.lake.columns.json_columns import pack_schema, unpack_schema

START = datetime(2020, 1, 1, tzinfo=UTC)


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _map(kind: Any) -> dict[str, Any]:
    return {"type": "map", "values": kind}


def _long(logical: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical}


def _record(**fields: Any) -> dict[str, Any]:
    made = [
        {"name": name, "type": kind} | ({"default": None} if isinstance(kind, list) else {})
        for name, kind in fields.items()
    ]
    return {"type": "record", "name": "Inner", "fields": made}


CENTS = Decimal("1.25")
HUGE = 10**40 + 1
# name -> the first version's type and a value, the second's, and the two values as readers see them
GROWS: dict[str, tuple[Any, Any, Any, Any, list[Any]]] = {
    "int to long": ("int", 1, "long", 1 << 40, [1, 1 << 40]),
    "int to float": ("int", 1, "float", 0.5, [1.0, 0.5]),
    "long to float": ("long", 1, "float", 0.5, [1.0, 0.5]),
    "long to double": ("long", 1 << 53, "double", 0.5, [float(1 << 53), 0.5]),
    "long to decimal": ("long", -(1 << 63), _decimal(25, 2), CENTS, [Decimal(-(1 << 63)), CENTS]),
    "decimal to more digits": (_decimal(10, 2), CENTS, _decimal(12, 2), CENTS, [CENTS, CENTS]),
    "decimal to a longer scale": (_decimal(10, 2), CENTS, _decimal(14, 4), CENTS / 100, [CENTS, CENTS / 100]),
    "decimal to text": (_decimal(38, 2), CENTS, _decimal(50, 2), Decimal(f"{HUGE}.25"), ["1.25", f"{HUGE}.25"]),
    "decimal in a record": (_record(x=_decimal(9, 2)), {"x": CENTS}, _record(x=_decimal(30, 2)), {"x": CENTS},
                            [{"x": CENTS}, {"x": CENTS}]),
    "map of int to map of long": (_map("int"), {"a": 1}, _map("long"), {"a": 1 << 40}, [{"a": 1}, {"a": 1 << 40}]),
    "map of int to map of double": (_map("int"), {"a": 1}, _map("double"), {"a": 0.5}, [{"a": 1.0}, {"a": 0.5}]),
    "a member in a map": (_map(_record(x="int")), {"a": {"x": 1}}, _map(_record(x="int", y=["null", "string"])),
                          {"a": {"x": 2, "y": "z"}}, [{"a": {"x": 1, "y": None}}, {"a": {"x": 2, "y": "z"}}]),
    "map of nulls to map of text": (_map("null"), {"a": None}, _map(["null", "string"]), {"a": "x"},
                                    [{"a": None}, {"a": "x"}]),
    "microseconds to nanoseconds": (_long("timestamp-micros"), START, _long("timestamp-nanos"),
                                    1_577_836_800_000_001_000, [START, START.replace(microsecond=1)]),
}  # fmt: skip
# name -> the same, of which the second value is a bad row for a reason
REFUSED: dict[str, tuple[Any, Any, Any, Any, list[Any], str]] = {
    "digits beyond microseconds": (_long("timestamp-micros"), START, _long("timestamp-nanos"), 1, [START],
                                   "v: .* no digits beyond microseconds"),
    "a day that nanoseconds lack": (_long("timestamp-nanos"), 1, _long("timestamp-micros"), LAST, [1], "v: .*bounds"),
    "a number outside the day": (_long("time-micros"), time(1), "long", 10**15, [time(1)], "v: a time of day"),
    "date to timestamp": ({"type": "int", "logicalType": "date"}, date.max, _long("timestamp-micros"), LAST, [date.max],
                          "value.v: timestamp"),
    "record to map": (_record(x="int"), {"x": 1}, _map("int"), {"a": 1}, [{"x": 1}], "value.v: map"),
}  # fmt: skip


def _load(make: Callable[..., Load], one: Any, first: Any, two: Any, second: Any) -> Load:
    schemas = {number: WriterSchema("AVRO", avro_record(kind)) for number, kind in ((1, one), (2, two))}
    load = make(values="avro", registry="http://registry", dead_letter="bad")
    load.registry(schemas)
    for number, value in ((1, first), (2, second)):
        payload = avro_payload(schemas[number].text, {"v": value, "id": number})
        load.round(framed(number, [payload]).to_pylist())
    return load


@pytest.fixture(params=FORMATS)
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Load]:
    return lambda **options: Load(monkeypatch, tmp_path, request.param, **options)


@pytest.mark.parametrize("name", GROWS)
def test_a_column_takes_the_type_that_holds_the_values_of_both_versions(name: str, make: Callable[..., Load]):
    *versions, expected = GROWS[name]
    load = _load(make, *versions)
    format = load.settings.shape.format
    for reader, read in READERS[format](load).items():
        if format != "parquet" or reader == "lake.rows":
            assert columns_of(read()) == seen(as_held(expected, format)), reader
    assert load.letters == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_the_column_cannot_hold_is_a_bad_row_and_changes_no_other(name: str, make: Callable[..., Load]):
    *versions, expected, reason = REFUSED[name]
    load = _load(make, *versions)
    format = load.settings.shape.format
    for reader, read in READERS[format](load).items():
        assert columns_of(read()) == seen(as_held(expected, format)), reader
    assert len(load.letters) == 1
    assert re.search(reason, load.letters[0])


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_keyed_table_keeps_values_of_every_type_that_a_later_round_does_not_touch(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    schema, row, expected = every_avro_type()
    load = Load(monkeypatch, tmp_path, format, values="avro", schema=schema, key="id")
    load.round([avro_payload(schema, {**row, "id": number}) for number in (1, 2)])
    load.round([avro_payload(schema, {**row, "id": 1})])
    load.round([avro_payload(schema, {**row, "id": 3})])
    for reader, read in READERS[format](load).items():
        table = read()
        assert sorted(table.column("id").to_pylist()) == [1, 2, 3], reader
        for name, value in expected.items():
            assert columns_of(table, name) == [seen(as_held(value, format))] * 3, (reader, name)


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("values", ["json", "avro"])
def test_rows_of_the_calendars_last_day_lie_on_that_day(
    format: str, values: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    schema = avro_record(_long("timestamp-micros"))
    options = {"schema": schema} if values == "avro" else {}
    load = Load(monkeypatch, tmp_path, format, values=values, partition_by="day", event_time="v", **options)
    texts = ["9999-12-31T23:59:59.999999Z", "0001-01-01"]
    moments = [LAST, datetime(1, 1, 1, tzinfo=UTC)]
    if values == "json":
        load.round([json.dumps({"v": text}).encode() for text in texts])
    else:
        load.round([avro_payload(schema, {"v": moment, "id": 0}) for moment in moments])
    reader = {"parquet": "lake.rows", "delta": "deltalake"}[format]
    days = [str(day) for day in columns_of(READERS[format](load)[reader](), "date")]
    assert days == ["9999-12-31", "0001-01-01"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("kind", "value", "day"),
    [(_long("timestamp-nanos"), 1_577_836_800_000_000_001, "2020-01-01"), (_long("time-micros"), time(1), None)],
)
def test_the_event_time_goes_by_the_fields_own_type(
    kind: Any, value: Any, day: str | None, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    schema = avro_record(kind)
    load = Load(monkeypatch, tmp_path, format, values="avro", schema=schema, event_time="v", dead_letter="bad",
                partition_by="none" if format == "iceberg" else "day")  # fmt: skip
    load.round([avro_payload(schema, {"v": value, "id": 0})])
    if day is None:
        assert load.letters == ["field v: no time that can be read"]
    elif format != "iceberg":
        reader = {"parquet": "lake.rows", "delta": "deltalake"}[format]
        assert str(columns_of(READERS[format](load)[reader](), "date")[0]) == day


BIG = (1 << 53) + 1
KEPT: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "long to double": ("long", BIG, "double", 0.5, 0),
    "long to float": ("long", BIG, "float", 0.5, 0),
    "double to long": ("double", 0.5, "long", BIG, 1.0),
    "list of long to list of double": ({"type": "array", "items": "long"}, [BIG], {"type": "array", "items": "double"},
                                       [0.5], []),
    "map of long to map of double": (_map("long"), {"a": BIG}, _map("double"), {"a": 0.5}, {}),
    "member": (_record(x="long"), {"x": BIG}, _record(x="double"), {"x": 0.5}, {"x": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "older"])
@pytest.mark.parametrize("cuts", [(1, 2), (2,), ()], ids=str)
def test_a_column_of_numbers_that_a_double_cannot_hold_keeps_its_type_however_the_rounds_are_cut(
    name: str, noted: bool, cuts: tuple[int, ...], make: Callable[..., Load]
):
    one, first, two, second, third = KEPT[name]
    schemas = {number: WriterSchema("AVRO", avro_record(kind)) for number, kind in ((1, one), (2, two))}
    load = make(values="avro", registry="http://registry", dead_letter="bad")
    load.registry(schemas)
    sent = [
        framed(number, [avro_payload(schemas[number].text, {"v": value, "id": at})]).to_pylist()[0]
        for at, (number, value) in enumerate([(1, first), (2, second), (1, third)])
    ]
    for begin, end in itertools.pairwise((0, *cuts, len(sent))):
        load.round(sent[begin:end])
        if not noted:  # as a lake of an earlier version has it
            held = unpack_schema(load.committed.columns[TOPIC])
            forgotten = pack_schema(with_notes(held, ()))
            load.committed = replace(load.committed, columns={TOPIC: forgotten})
    format = load.settings.shape.format
    for reader, read in READERS[format](load).items():
        assert [seen(each) for each in columns_of(read())] == seen([first, third]), reader
    assert len(load.letters) == 1
    assert re.search(r"2\*\*53|not in range|v: ", load.letters[0])


@pytest.mark.parametrize("cuts", [(1, 2), (1,), ()], ids=str)
def test_a_field_that_divides_the_lake_keeps_its_type_in_iceberg_and_is_text_in_delta(
    cuts: tuple[int, ...], make: Callable[..., Load]
):
    schemas = {number: WriterSchema("AVRO", avro_record(kind)) for number, kind in ((1, "int"), (2, "long"))}
    load = make(values="avro", registry="http://registry", dead_letter="bad", partition_by="v")
    load.registry(schemas)
    sent = [
        framed(number, [avro_payload(schemas[number].text, {"v": value, "id": at})]).to_pylist()[0]
        for at, (number, value) in enumerate([(1, 1), (2, 2), (1, 3)])
    ]
    for begin, end in itertools.pairwise((0, *cuts, len(sent))):
        load.round(sent[begin:end])
    format = load.settings.shape.format
    if format == "iceberg":
        for reader, read in READERS[format](load).items():
            assert columns_of(read()) == [1, 3], reader
        assert len(load.letters) == 1 and "field v: int64 where a table is divided by int32" in load.letters[0]
    else:
        reader = {"parquet": "lake.rows", "delta": "deltalake"}[format]
        assert [int(each) for each in columns_of(READERS[format](load)[reader]())] == [1, 2, 3]
        assert load.letters == []


@pytest.mark.parametrize("key", ["", "id"])
def test_a_field_that_no_record_of_the_first_round_has_divides_an_iceberg_table_later(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    load = Load(monkeypatch, tmp_path, "iceberg", values="json", partition_by="b,v", key=key)
    rounds: list[list[dict[str, Any]]] = [
        [{"id": 1, "b": 1}, {"id": 2, "b": 2}],
        [{"id": 3, "v": 7, "b": 1}, {"id": 4, "v": 8}],
        [{"id": 1, "v": 7, "n": 0.5}, {"id": 5}],
        [{"id": 6, "n": 1}],
    ]
    for rows in rounds:
        load.round([json.dumps(row).encode() for row in rows])
    sent = [row for rows in rounds for row in rows]
    kept = list({row["id"]: row for row in sent}.values()) if key else sent
    for reader, read in READERS["iceberg"](load).items():
        table = read()
        for name in ("id", "v", "b"):
            found = columns_of(table, name)
            assert sorted(found, key=str) == sorted((row.get(name) for row in kept), key=str), (reader, name)
    table = load_catalog("ottla", type="sql", uri=load.catalog).load_table(("ottla", TOPIC))
    assert sorted(field.name for field in table.spec().fields) == ["b", "v"]
    assert table.scan(row_filter="v = 7").to_arrow().num_rows == 2
