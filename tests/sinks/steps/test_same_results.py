"""Each step on Arrow batches gives what the transformation gives record by record, on records that hypothesis makes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.connect import data
from ottla.connect.chain import Chain
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import DAY_MS, Instant, Schema, Struct, struct
from ottla.connect.errors import ConnectException, UnknownField
from ottla.connect.java.text import scaled
from ottla.connect.records import Header, SinkRecord
from ottla.formats.arrays import whole
from ottla.lake.columns.types import EMPTY, Misfit
from ottla.lake.columns.values import ValueKind
from ottla.rows.arrow import row_schema
from ottla.sinks.steps.chain import chain_steps
from ottla.stores import LakeRefused

TOPIC, PARTITION, FIRST = "orders-eu", 3, 70
COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")
PLAIN_JSON = JsonConverter({"converter.type": "value", "schemas.enable": "false"})
WORDS = ("", "12", "-7", "0.5", "true", "True", "1e3", "300", "x", "2026-11-29", "99999999999999999999", " 4")
LONGS = st.integers(-(1 << 53), 1 << 53) | st.integers(-400, 400)
POINTED = st.integers(-40_000, 40_000).map(lambda number: number + 0.25)
"""Numbers that a document writes with a point, so that their column is double whichever of them come."""

TRANSFORMS = (
    {"type": "Filter"},
    {"type": "DropHeaders", "headers": "h,none"},
    {"type": "MaskField$Value", "fields": "i,s"},
    {"type": "MaskField$Value", "fields": "b,f,a,o"},
    {"type": "MaskField$Value", "fields": "s,i,f", "replacement": "42"},
    {"type": "MaskField$Value", "fields": "s,b", "replacement": "xx"},
    {"type": "MaskField$Value", "fields": "i", "replacement": "7.9"},
    {"type": "MaskField$Value", "fields": "i,nothing", "replacement": "no number"},
    {"type": "ReplaceField$Value", "exclude": "s,o"},
    {"type": "ReplaceField$Value", "include": "i,o,s", "exclude": "s"},
    {"type": "ReplaceField$Value", "renames": "i:number,nothing:else,o:object"},
    {"type": "ReplaceField$Value", "include": "nothing"},
    {"type": "Flatten$Value"},
    {"type": "Flatten$Value", "delimiter": "_"},
    {"type": "Cast$Value", "spec": "i:int8,f:int64,b:int32"},
    {"type": "Cast$Value", "spec": "i:string,b:string,s:string"},
    {"type": "Cast$Value", "spec": "i:boolean,f:boolean,s:boolean,nothing:int16"},
    {"type": "Cast$Value", "spec": "s:int16"},
    {"type": "Cast$Value", "spec": "s:float64,i:float64,b:float64"},
    {"type": "Cast$Value", "spec": "a:string"},
    {"type": "InsertField$Value", "static.field": "site", "static.value": "here!", "topic.field": "topic"},
    {"type": "InsertField$Value", "offset.field": "off!", "partition.field": "part?", "timestamp.field": "at"},
    {"type": "InsertField$Value", "topic.field": "s"},
    {"type": "HoistField$Value", "field": "whole"},
    {"type": "ExtractField$Value", "field": "o"},
    {"type": "ExtractField$Value", "field": "o.y", "field.syntax.version": "V2"},
    {"type": "ExtractField$Value", "field": "s.y", "field.syntax.version": "V2"},
    {"type": "TimestampConverter$Value", "field": "i", "target.type": "Timestamp"},
    {"type": "TimestampConverter$Value", "field": "i", "target.type": "unix", "unix.precision": "microseconds"},
    {"type": "TimestampConverter$Value", "field": "i", "target.type": "string", "format": "yyyy-MM-dd HH:mm:ss.SSS"},
    {"type": "TimestampConverter$Value", "field": "s", "target.type": "Date", "format": "yyyy-MM-dd"},
    {"type": "TimestampConverter$Value", "field": "i", "target.type": "Time", "unix.precision": "seconds"},
    {"type": "TimestampConverter$Value", "field": "b", "target.type": "unix"},
)
CONDITIONS = (
    None,
    {"type": "HasHeaderKey", "name": "h"},
    {"type": "RecordIsTombstone"},
    {"type": "TopicNameMatches", "pattern": "orders-.*"},
    {"type": "TopicNameMatches", "pattern": "orders"},
)
CHAINS = st.lists(
    st.tuples(st.sampled_from(TRANSFORMS), st.sampled_from(CONDITIONS), st.booleans()), min_size=1, max_size=3
)
HEADERS = st.lists(st.sampled_from(["h", "k"]), max_size=3)


def configuration(chain):
    """A connector's options for a chain."""
    found = {"transforms": ",".join(f"t{at}" for at in range(len(chain)))}
    found["predicates"] = ",".join(f"p{at}" for at, (_, condition, _) in enumerate(chain) if condition is not None)
    for at, (transform, condition, negate) in enumerate(chain):
        found |= {f"transforms.t{at}.{name}": text for name, text in transform.items()}
        if condition is not None:
            found |= {f"predicates.p{at}.{name}": text for name, text in condition.items()}
            found |= {f"transforms.t{at}.predicate": f"p{at}", f"transforms.t{at}.negate": str(negate).lower()}
    found |= {
        f"transforms.t{at}.replace.null.with.default": "false"
        for at, (transform, _, _) in enumerate(chain)
        if transform["type"] not in ("Filter", "DropHeaders", "Flatten$Value", "HoistField$Value")
    }
    return found


def batch_of(values, headers):
    """Records as the reader of topics gives them; no headers are null."""
    count = len(values)
    listed = [[{"key": name, "value": b"v"} for name in names] or None for names in headers]
    times = [(1_700_000_000_000 + at) * 1000 for at in range(count)]
    columns = [[b"k"] * count, values, listed, [PARTITION] * count, range(FIRST, FIRST + count), times]
    schema = row_schema(COLUMNS)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), each.type) for column, each in zip(columns, schema, strict=True)], schema=schema
    )


def record_of(at, schema, value, names):
    """The same record as Connect's tasks get it."""
    headers = tuple(Header(name, data.STRING, "v") for name in names)
    return SinkRecord(
        TOPIC, PARTITION, value_schema=schema, value=value, headers=headers, timestamp=1_700_000_000_000 + at,
        offset=FIRST + at,
    )  # fmt: skip


def alone(chain, record):
    """The outcome for a record by itself: its value and headers, None where it was dropped, or the refusal."""
    try:
        made = chain.apply(record)
    except ConnectException as fault:
        return fault
    return None if made is None else (plainly(made.value), [header.key for header in made.headers])


def plainly(value: Any) -> Any:
    """A value without nulls and empty objects, which make no difference in a row."""
    match value:
        case Instant():
            return value.ms
        case Struct():
            return plainly({each.name: item for each, item in zip(value.schema.members, value.values, strict=True)})
        case dict():
            found = {name: plainly(item) for name, item in value.items()}
            return {name: item for name, item in found.items() if item is not None and item != {}}
        case list():
            return [plainly(item) for item in value]
        case bool():
            return str(value)  # else True is 1
    return value


def in_milliseconds(values):
    """Values whose times are numbers, as Connect's are."""
    kind = values.type
    if pa.types.is_struct(kind):
        parts = [in_milliseconds(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, [each.name for each in kind], mask=values.is_null())
    if pa.types.is_date32(kind):
        return pa.array(
            [None if day is None else day * DAY_MS for day in values.cast(pa.int32()).to_pylist()], pa.int64()
        )
    if pa.types.is_temporal(kind):
        ticks = values.cast(pa.int64()).to_pylist()
        return pa.array([None if time is None else time // 1000 for time in ticks], pa.int64())
    return values


def together(steps, values, batch):
    """The outcomes for the records of a batch, in the words of `alone`; a refusal is its reason."""
    stepped = steps.apply(values, batch)
    assert steps.columns(values.schema).equals(stepped.values.schema)
    columns = [(each, in_milliseconds(whole(stepped.values.column(each)))) for each in stepped.values.column_names]
    rows = pa.table(dict(columns)).to_pylist() if columns else [{}] * batch.num_rows
    faults = dict(reversed(stepped.faults))
    headers = [[each["key"] for each in names or ()] for names in stepped.headers.to_pylist()]
    found = []
    for at in range(batch.num_rows):
        if at in faults:
            found.append(faults[at])
        elif stepped.filtered[at]:
            found.append(None)
        else:
            found.append((None if stepped.tombstones[at] else plainly(rows[at]), headers[at]))
    return found


def compare(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(other, ConnectException):
            assert isinstance(mine, str), (mine, other)
        elif mine != other:  # a column holds times of the years 1 to 9999
            assert isinstance(mine, str) and mine.endswith("a time that no column of times can hold"), (mine, other)


def is_for_some(chain):
    """True if a step may be done to some of the records alone, or more than one step has its say about types."""
    return len(chain) > 1 or any(condition is not None for _, condition, _ in chain)


# An object or an array of which no record has shown a member or an item makes no column: here each has one.
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | LONGS,
        "f": st.none() | POINTED,
        "s": st.none() | st.sampled_from(WORDS),
        "b": st.none() | st.booleans(),
        "a": st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=3),
        "o": st.none()
        | st.fixed_dictionaries({"x": LONGS}, optional={"y": st.none() | st.fixed_dictionaries({"z": st.just("t")})}),
    },
)
RECORDS = st.lists(st.tuples(st.none() | DOCUMENTS, HEADERS), min_size=1, max_size=8)


@given(CHAINS, RECORDS)
def test_json_without_a_schema(chain, records):
    config = configuration(chain)
    texts = [None if value is None else json.dumps(value).encode() for value, _ in records]
    batch = batch_of(texts, [names for _, names in records])
    reader = ValueKind("json").reader(TOPIC)
    schema = reader.read(batch.column("value"), EMPTY).wanted
    block = reader.read(batch.column("value"), schema)
    assert block.table is not None and not block.faults
    try:
        steps = chain_steps(config).reading("json").of(TOPIC)
        ours = together(steps, block.table, batch)
    except (Misfit, LakeRefused):
        assert is_for_some(chain)  # a single step over all records always has columns here
        assume(False)
    by_record = Chain(config)
    read = [PLAIN_JSON.to_connect(TOPIC, text) for text in texts]
    theirs = [
        alone(by_record, record_of(at, each.schema, each.value, names))
        for at, (each, (_, names)) in enumerate(zip(read, records, strict=True))
    ]
    compare(ours, theirs)


OPTIONAL = {"optional": True}
INNER = struct([("x", data.INT64.but(**OPTIONAL)), ("y", data.OPTIONAL_STRING)], **OPTIONAL)
TYPED = struct(
    [
        ("i", data.INT64.but(**OPTIONAL)),
        ("short", data.INT16.but(**OPTIONAL)),
        ("f", data.FLOAT64.but(**OPTIONAL)),
        ("single", data.FLOAT32.but(**OPTIONAL)),
        ("s", data.OPTIONAL_STRING),
        ("b", data.BOOLEAN.but(**OPTIONAL)),
        ("at", data.TIMESTAMP_SCHEMA.but(**OPTIONAL)),
        ("day", data.DATE_SCHEMA.but(**OPTIONAL)),
        ("by", data.BYTES.but(**OPTIONAL)),
        ("dec", data.decimal(2).but(**OPTIONAL)),
        ("a", data.array(data.INT64.but(**OPTIONAL), **OPTIONAL)),
        ("o", INNER),
    ]
)
TYPES = {
    "i": pa.int64(), "short": pa.int16(), "f": pa.float64(), "single": pa.float32(), "s": pa.string(), "b": pa.bool_(),
    "at": pa.timestamp("us", "UTC"), "day": pa.date32(), "by": pa.binary(), "dec": pa.decimal128(20, 2),
    "a": pa.list_(pa.int64()), "o": pa.struct([("x", pa.int64()), ("y", pa.string())]),
}  # fmt: skip
TYPED_TRANSFORMS = (
    {"type": "MaskField$Value", "fields": "i,short,f,single,s,b,at,day,a"},
    {"type": "MaskField$Value", "fields": "o"},
    {"type": "MaskField$Value", "fields": "i,short,f,single,s", "replacement": "70000.75"},
    {"type": "MaskField$Value", "fields": "at,b", "replacement": "1"},
    {"type": "MaskField$Value", "fields": "dec"},
    {"type": "MaskField$Value", "fields": "dec", "replacement": "1.5"},
    {"type": "MaskField$Value", "fields": "by"},
    {"type": "Cast$Value", "spec": "i:int32,short:int8,f:int8,single:int64,b:float32"},
    {"type": "Cast$Value", "spec": "f:string,single:string,i:string,short:float64"},
    {"type": "Cast$Value", "spec": "f:int64,i:float32,s:float32,single:boolean"},
    {"type": "Cast$Value", "spec": "f:int32,s:int64,nothing:int8"},
    {"type": "Cast$Value", "spec": "at:int64,day:int16,by:string,dec:int8"},
    {"type": "Cast$Value", "spec": "at:string,day:float64,dec:string"},
    {"type": "Cast$Value", "spec": "by:int8,dec:float32"},
    {"type": "ReplaceField$Value", "renames": "at:time,o:object", "exclude": "f,day"},
    {"type": "Flatten$Value", "delimiter": "_"},
    {"type": "InsertField$Value", "timestamp.field": "when", "offset.field": "off", "static.field": "x",
     "static.value": ""},
    {"type": "HoistField$Value", "field": "whole"},
    {"type": "ExtractField$Value", "field": "o"},
    {"type": "TimestampConverter$Value", "field": "at", "target.type": "unix", "unix.precision": "seconds"},
    {"type": "TimestampConverter$Value", "field": "at", "target.type": "Date"},
    {"type": "TimestampConverter$Value", "field": "at", "target.type": "Time"},
    {"type": "TimestampConverter$Value", "field": "day", "target.type": "string", "format": "dd.MM.yyyy"},
    {"type": "TimestampConverter$Value", "field": "i", "target.type": "Timestamp", "unix.precision": "nanoseconds"},
)  # fmt: skip
MILLISECONDS = st.integers(-DAY_MS * 20_000, DAY_MS * 40_000)
SINGLES = st.floats(width=32, allow_nan=True)
VALUES = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | LONGS,
        "short": st.none() | st.integers(-(1 << 15), (1 << 15) - 1),
        "f": st.none() | st.floats(),
        "single": st.none() | SINGLES,
        "s": st.none() | st.sampled_from(WORDS),
        "b": st.none() | st.booleans(),
        "at": st.none() | MILLISECONDS,
        "day": st.none() | st.integers(-20_000, 40_000).map(lambda day: day * DAY_MS),
        "by": st.none() | st.sampled_from([b"", b"\xde\xad"]),
        "dec": st.none() | st.integers(-100_000, 100_000).map(lambda number: scaled(number, 2)),
        "a": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2),
        "o": st.none() | st.fixed_dictionaries({"x": st.none() | LONGS, "y": st.none() | st.just("t")}),
    }
)


def typed(value):
    """A value as Connect has it."""
    found = dict(value)
    for name in ("at", "day"):
        found[name] = None if found[name] is None else Instant(found[name])
    if found["o"] is not None:
        found["o"] = Struct(INNER, [found["o"]["x"], found["o"]["y"]])
    return Struct(TYPED, [found[each.name] for each in TYPED.members])


def columned(values):
    """The same values as the lake's columns; a record without one is a row of nulls."""
    divided = {"at": lambda ms: ms * 1000, "day": lambda ms: ms // DAY_MS}
    counted = {"at": pa.int64(), "day": pa.int32()}
    columns = []
    for name, kind in TYPES.items():
        items = [None if each is None else each[name] for each in values]
        if name in divided:
            items = [None if item is None else divided[name](item) for item in items]
        columns.append(pa.array(items, counted.get(name, kind)).cast(kind))
    return pa.table(columns, names=list(TYPES))


def alike(mine, other):
    """True for the same values; NaN is the same as NaN."""
    if isinstance(mine, float) and isinstance(other, float):
        return mine == other or bool(np.isnan(mine) and np.isnan(other))
    if isinstance(mine, dict) and isinstance(other, dict):
        return mine.keys() == other.keys() and all(alike(mine[name], other[name]) for name in mine)
    if isinstance(mine, list | tuple) and isinstance(other, list | tuple):
        return len(mine) == len(other) and all(map(alike, mine, other))
    return mine == other


@given(
    st.lists(
        st.tuples(st.sampled_from(TYPED_TRANSFORMS), st.sampled_from(CONDITIONS), st.booleans()), min_size=1, max_size=2
    ),
    st.lists(st.tuples(st.none() | VALUES, HEADERS), min_size=1, max_size=6),
)
def test_values_with_a_schema(chain, records):
    config = configuration(chain)
    values = [value for value, _ in records]
    batch = batch_of([None if value is None else b"x" for value in values], [names for _, names in records])
    steps = chain_steps(config).reading("avro").of(TOPIC)
    try:
        ours = together(steps, columned(values), batch)
    except (Misfit, LakeRefused):
        assert is_for_some(chain)
        assume(False)
    by_record = Chain(config)
    schemas: list[Schema | None] = [None if value is None else TYPED for value in values]
    theirs = [
        alone(by_record, record_of(at, schema, None if value is None else typed(value), names))
        for at, (schema, (value, names)) in enumerate(zip(schemas, records, strict=True))
    ]
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(other, UnknownField) and not isinstance(mine, str):
            assert is_for_some(chain) and mine[0] is None  # other records have the field: the column is there
        elif isinstance(other, ConnectException):
            assert isinstance(mine, str), (mine, other)
        else:
            assert alike(mine, other), (mine, other)
