"""Values of change events become what the schema in their envelope says, in one round as in many."""

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import deltalake
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lake.driven_rounds import TOPIC, both_ways, documents, event

from ottla.lake.columns.event_types import Envelopes

TABLES = ["delta", "iceberg"]
CONNECT = "org.apache.kafka.connect.data"


def encoded(unscaled):
    return base64.b64encode(unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)).decode()


def schema(**fields):
    """The schema of an event's envelope, whose rows have these fields beside `id`."""
    row = [{"field": "id", "type": "int64", "optional": False}]
    row += [{"field": name, "optional": True, **declared} for name, declared in fields.items()]
    states = [{"field": part, "type": "struct", "fields": row, "optional": True} for part in ("before", "after")]
    return {"type": "struct", "fields": [*states, {"field": "op", "type": "string"}], "name": "db.t.Envelope"}


def sent(declared, value, id=1, op="c"):
    return {"schema": schema(v=declared), "payload": event(op, None, {"id": id, "v": value})}


def decimal(scale, **more):
    return {"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": {"scale": str(scale), **more}}


DAY, MILLIS, MICROS = 18_262, 1_577_836_800_123, 1_577_836_800_123_456
VALUES = [
    (decimal(2, **{"connect.decimal.precision": "10"}), encoded(1234), Decimal("12.34")),
    (decimal(0), encoded(-(10**37)), Decimal(-(10**37))),
    (decimal(2), 12.34, Decimal("12.34")),
    (decimal(2), 7, Decimal("7.00")),
    ({"type": "int32", "name": f"{CONNECT}.Date"}, DAY, date(2020, 1, 1)),
    ({"type": "int32", "name": "io.debezium.time.Date"}, -719_162, date(1, 1, 1)),
    ({"type": "int32", "name": "io.debezium.time.Date"}, 2_932_896, date(9999, 12, 31)),
    ({"type": "int64", "name": f"{CONNECT}.Timestamp"}, MILLIS, datetime(2020, 1, 1, 0, 0, 0, 123_000)),
    ({"type": "int64", "name": "io.debezium.time.Timestamp"}, MILLIS, datetime(2020, 1, 1, 0, 0, 0, 123_000)),
    ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, MICROS, datetime(2020, 1, 1, 0, 0, 0, 123_456)),
    (
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        "2020-01-01T01:00:00.5+01:00",
        datetime(2020, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
    ),
    ({"type": "bytes"}, "AAEC", b"\0\1\2"),
    ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 3, "value": encoded(-5)}, "-0.005"),
    ({"type": "int64"}, 5, 5),
    ({"type": "string", "name": "io.debezium.data.Json"}, "{}", "{}"),
    ({"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, MICROS * 1000 + 1, MICROS * 1000 + 1),
]


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize(("declared", "value", "found"), VALUES)
def test_a_value_becomes_what_its_schema_says(memory_lake, form, declared, value, found):
    records = documents(sent({"type": "string"}, None, 9), sent(declared, value), sent(declared, None, 2))
    (lake,) = [both_ways(memory_lake, form, records[1:], key="id", debezium=True)]
    assert lake.dead == {} and [row["v"] for row in lake.rows()] == [found, None]


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        (f"{CONNECT}.Time", "int32", 3_600_500),
        ("io.debezium.time.Time", "int32", 3_600_500),
        ("io.debezium.time.MicroTime", "int64", 3_600_500_000),
    ],
)
def test_a_time_of_day_is_one_where_the_table_has_such_a_type(memory_lake, form, name, kind, value):
    lake = both_ways(memory_lake, form, documents(sent({"type": kind, "name": name}, value)), key="id", debezium=True)
    assert [row["v"] for row in lake.rows()] == [3_600_500_000 if form == "delta" else time(1, 0, 0, 500_000)]


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (decimal(2), "no Base64"),
        (decimal(2), encoded(10**38)),
        (decimal(2), 0.125),
        ({"type": "int32", "name": "io.debezium.time.Date"}, 2_932_897),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 9_223_372_036_825_200_000),
        ({"type": "int32", "name": "io.debezium.time.Time"}, -1),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2020-01-01T00:00:00.1234567Z"),
        ({"type": "bytes"}, "x"),
    ],
)
def test_a_value_that_is_not_what_its_schema_says_is_a_dead_letter(memory_lake, form, declared, value):
    lake = both_ways(
        memory_lake, form, documents(sent(declared, value), sent(declared, None, 2)), key="id", debezium=True
    )
    assert list(lake.dead) == [0] and "field v: a value that is no" in lake.dead[0]
    assert [row["id"] for row in lake.rows()] == [2]


@pytest.mark.parametrize("form", TABLES)
def test_an_event_whose_schema_says_something_else_is_a_dead_letter(memory_lake, form):
    records = documents(sent(decimal(2), encoded(1)), sent(decimal(3), encoded(1), 2), sent(decimal(2), encoded(5), 3))
    lake = both_ways(memory_lake, form, records, key="id", debezium=True)
    assert lake.dead == {1: "field v: its schema says decimal 3, where the column holds decimal 2"}
    assert [row["v"] for row in lake.rows()] == [Decimal("0.01"), Decimal("0.05")]


@pytest.mark.parametrize("form", TABLES)
def test_events_without_a_schema_lie_beside_those_with_one(memory_lake, form):
    """The first event with the field decides: a column that was made without a schema keeps its type."""
    days = {"type": "int32", "name": "io.debezium.time.Date"}
    plain = [event("c", None, {"id": 2, "v": DAY}), event("c", None, {"id": 3})]
    for order, found in (
        ([sent(days, DAY), *plain], [date(2020, 1, 1), date(2020, 1, 1), None]),
        ([*plain, sent(days, DAY)], [DAY, None, DAY]),
    ):
        lake = both_ways(memory_lake, form, documents(*order), key="id", debezium=True)
        assert lake.dead == {} and [row["v"] for row in lake.rows()] == found


@pytest.mark.parametrize("form", TABLES)
def test_a_typed_column_may_come_later(memory_lake, form):
    lake = memory_lake(form, key="id", debezium=True)
    lake.load(*documents(event("c", None, {"id": 1})))
    lake.load(*documents(sent({"type": "int64", "name": "io.debezium.time.Timestamp"}, MILLIS, 2)))
    assert [row.get("v") for row in lake.rows()] == [None, datetime(2020, 1, 1, 0, 0, 0, 123_000)]
    if form == "delta":
        features = deltalake.DeltaTable(str(lake.place / TOPIC)).protocol()
        assert "timestampNtz" in features.reader_features and "timestampNtz" in features.writer_features


@pytest.mark.parametrize("form", TABLES)
def test_bytes_that_did_not_change_stay(memory_lake, form):
    left_out = base64.b64encode(b"__debezium_unavailable_value").decode()
    records = documents(sent({"type": "bytes"}, "AAEC"), sent({"type": "bytes"}, left_out, op="u"))
    lake = both_ways(memory_lake, form, records, key="id", debezium=True)
    assert [row["v"] for row in lake.rows()] == [b"\0\1\2"]


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("encoded", [False, True])
def test_a_decimal_that_did_not_change_stays(memory_lake, form, encoded, caplog):
    placeholder = "__debezium_unavailable_value"
    left_out = base64.b64encode(placeholder.encode()).decode() if encoded else placeholder
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    records = documents(sent(decimal, "MDk="), sent(decimal, left_out, op="u"), sent(decimal, left_out, 2))
    lake = both_ways(memory_lake, form, records, key="id", debezium=True)
    assert lake.dead == {} and [row["v"] for row in lake.rows()] == [Decimal("123.45"), None]
    assert "1 rows keep" in caplog.text


@pytest.mark.parametrize("form", TABLES)
def test_a_table_may_be_divided_by_what_a_schema_says(memory_lake, form):
    days = {"type": "int32", "name": "io.debezium.time.Date"}
    records = documents(sent(days, DAY), sent(days, DAY + 1, 2), sent(days, None, 3))
    lake = both_ways(memory_lake, form, records, key="id", debezium=True, partition_by="v")
    assert [str(row["v"]) for row in lake.rows()] == ["2020-01-01", "2020-01-02", "None"]
    records = documents(sent({"type": "bytes"}, "AP8="), sent({"type": "bytes"}, "YWI=", 2))
    lake = both_ways(memory_lake, form, records, key="id", debezium=True, partition_by="v")
    assert lake.dead == {0: "a field that divides the lake: its bytes are no text"}


def test_a_deletion_by_the_records_key_finds_a_typed_key(memory_lake):
    days = {"type": "int32", "name": "io.debezium.time.Date"}
    made = documents(sent(days, DAY), {"schema": schema(v=days), "payload": event("d", None, None)})
    gone = type(made[1])(made[1].value, json.dumps({"v": DAY}).encode())
    lake = both_ways(memory_lake, "delta", [made[0], gone], key="v", debezium=True)
    assert lake.dead == {} and lake.rows() == []


def test_defaults_of_many_types_in_a_schema_refuse_no_event(memory_lake):
    declared = schema(a={"type": "int32", "default": 0}, b={"type": "string", "default": "x"})
    record = {"schema": declared, "payload": event("c", None, {"id": 1, "a": 1, "b": "y"})}
    lake = both_ways(memory_lake, "delta", documents(record, record), key="id", debezium=True)
    assert lake.dead == {} and [(row["a"], row["b"]) for row in lake.rows()] == [(1, "y")]


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"{", b"[]", b"{}", b'{"schema":1,"payload":{}}', b'{"schema":{},"payload":null}',
        b'{"schema":{},"payload":{}}x', b'{"schema":{},"payload":{},"schema":{}}', b'{"schema":{},"payload":{},"x":1}',
        b'{"schema":{},"payload":{}', b'{"schema":{} "payload":{}}', b'"schema" "payload"', b'\xff"schema""payload"',
    ],
)  # fmt: skip
def test_a_value_that_is_no_envelope_is_left_as_it_is(value):
    assert Envelopes().opened(value) == (value, None)


def test_an_envelope_may_have_spaces_and_its_payload_first():
    opened = Envelopes()
    for _ in range(2):
        assert opened.opened(b'  {"schema" : {"fields":[]} , "payload": {"n": 1.50} }')[0] == b'{"payload":{"n": 1.50}}'
        assert opened.opened(b'{"payload":{"n":[1]},"schema":{}}') == (b'{"payload":{"n":[1]}}', {})


kinds = st.sampled_from([decimal(2), {"type": "string"}, {"type": "int32", "name": "io.debezium.time.Date"}])
values = st.sampled_from([None, encoded(5), "x", 7, 0.5])
mixed = st.one_of(
    st.builds(sent, kinds, values, st.sampled_from([1, 2])),
    st.builds(lambda value, id: event("c", None, {"id": id, "v": value}), values, st.sampled_from([1, 2])),
)


@pytest.mark.parametrize("form", TABLES)
@given(st.lists(mixed, min_size=2, max_size=7), st.integers(1, 6))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_cuts_of_events_with_and_without_schemas_make_one_table(memory_lake, form, records, cut):
    whole, parts = (memory_lake(form, key="id", debezium=True) for _ in range(2))
    whole.load(*documents(*records))
    for part in (records[:cut], records[cut:]):
        parts.load(*documents(*part))
    assert whole.dead.keys() == parts.dead.keys()
    assert [row.get("v") for row in whole.rows()] == [row.get("v") for row in parts.rows()]
