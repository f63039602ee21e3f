"""Random Avro schemas with values, and fastavro's reading of a payload as the oracle of the tests."""

import io
import json
from uuid import UUID

import fastavro
from hypothesis import strategies as st

INT = st.integers(-(1 << 31), (1 << 31) - 1)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
TEXT = st.text(max_size=6)


class Named:
    """Numbers for names: a schema may define each name only once."""

    def __init__(self):
        self.count = 0

    def __call__(self, noun):
        self.count += 1
        return f"{noun}{self.count}"


def leaves(name):
    """Pairs of a schema and a strategy for its values."""
    return [
        ("boolean", st.booleans()),
        ("int", INT),
        ("long", LONG),
        ("float", st.floats(width=32, allow_nan=False)),
        ("double", st.floats(allow_nan=False)),
        ("bytes", st.binary(max_size=6)),
        ("string", TEXT),
        ({"type": "int", "logicalType": "date"}, st.integers(-700_000, 2_900_000)),
        ({"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
        ({"type": "long", "logicalType": "time-micros"}, st.integers(0, 86_399_999_999)),
        ({"type": "long", "logicalType": "timestamp-millis"}, MICROS.map(lambda micros: micros // 1000)),
        ({"type": "long", "logicalType": "timestamp-micros"}, MICROS),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, MICROS.map(lambda micros: micros // 1000)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, MICROS),
        ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
            st.integers(-(10**20) + 1, 10**20 - 1),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, st.integers(-(10**50) + 1, 10**50 - 1)),
        (
            {"type": "fixed", "name": name("fixed"), "size": 7, "logicalType": "decimal", "precision": 16, "scale": 2},
            st.integers(-(10**16) + 1, 10**16 - 1),
        ),
        ({"type": "fixed", "name": name("fixed"), "size": 5}, st.binary(min_size=5, max_size=5)),
        ({"type": "enum", "name": name("enum"), "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")),
        ("null", st.none()),
    ]


@st.composite
def typed(draw, name, depth=3):
    """A schema and a strategy for values, as fastavro takes them without logical types."""
    shapes = ["leaf", "leaf", "leaf", "optional", "array", "map", "record", "union"]
    shape = draw(st.sampled_from(shapes if depth else ["leaf"]))
    if shape == "leaf":
        return draw(st.sampled_from(leaves(name)))
    if shape == "record":
        return draw(record(name, depth - 1))
    if shape == "union":
        chosen = [("string", TEXT), ("long", LONG), draw(record(name, depth - 1))]
        chosen = draw(st.permutations([*chosen, ("null", st.none())]))[: draw(st.integers(1, 4))]
        return [kind for kind, _ in chosen], st.one_of([values for _, values in chosen])
    inner, values = draw(typed(name, depth - 1))
    if shape == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if shape == "map":
        return {"type": "map", "values": inner}, st.dictionaries(TEXT, values, max_size=3)
    if inner == "null" or isinstance(inner, list):
        return inner, values
    both = draw(st.permutations(["null", inner]))
    return list(both), st.none() | values


@st.composite
def record(draw, name, depth=3):
    """A record's schema and a strategy for its values."""
    own = name("record")
    parts = draw(st.lists(typed(name, depth), min_size=1, max_size=4))
    fields = [{"name": f"field{at}", "type": kind} for at, (kind, _) in enumerate(parts)]
    schema = {"type": "record", "name": own, "fields": fields}
    return schema, st.fixed_dictionaries({f"field{at}": values for at, (_, values) in enumerate(parts)})


@st.composite
def records(draw):
    """A record's schema and values of it."""
    schema, values = draw(record(Named()))
    return schema, draw(st.lists(values, min_size=1, max_size=6))


def raw(schema, value):
    """A value whose decimals are bytes, as in a schema without logical types."""
    if isinstance(schema, list):
        return None if value is None else raw(branch_of(schema, value), value)
    if not isinstance(schema, dict):
        return value
    if schema.get("logicalType") == "decimal":
        size = schema.get("size") or (value.bit_length() + 8) // 8
        return value.to_bytes(size, "big", signed=True)
    if schema["type"] == "array":
        return [raw(schema["items"], item) for item in value]
    if schema["type"] == "map":
        return {key: raw(schema["values"], item) for key, item in value.items()}
    if schema["type"] == "record":
        return {field["name"]: raw(field["type"], value[field["name"]]) for field in schema["fields"]}
    return value


def branch_of(schema, value):
    """The branch of a union that a value belongs to; it is unique in the unions made here."""
    branches = [branch for branch in schema if branch != "null"]
    if len(branches) == 1:
        return branches[0]
    kind = {str: "string", int: "long", dict: "record"}[type(value)]
    return next(each for each in branches if kind == (each if isinstance(each, str) else each["type"]))


def payload_of(schema, value):
    """The bytes that fastavro writes for a value of these strategies."""
    whole = {"type": "record", "name": "top", "fields": [{"name": "it", "type": _bare(schema)}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(whole), {"it": raw(schema, value)})
    return out.getvalue()


def _bare(schema):
    """A copy without logical types, so that values are written as they are."""
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: part for name, part in schema.items() if name not in ("logicalType", "precision", "scale")}
    for name in ("items", "values", "type"):
        if name in kept:
            kept[name] = _bare(kept[name])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": _bare(field["type"])} for field in kept["fields"]]
    return kept


def read_by_fastavro(schema, payload):
    """The value that fastavro reads, with logical types; raises fastavro's exceptions."""
    stream = io.BytesIO(payload)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), None)
    if stream.tell() != len(payload):
        raise ValueError("bytes are left")
    return value


def as_row(schema, value):
    """fastavro's value as Arrow's `to_pylist` gives it; members that have no column are left out."""
    if isinstance(schema, list):
        return None if value is None else _union_row(schema, value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return {
            field["name"]: as_row(field["type"], value[field["name"]])
            for field in schema["fields"]
            if has_column(field["type"])
        }
    if kind == "array":
        return [as_row(schema["items"], item) for item in value]
    if kind == "map":
        seen = has_column(schema["values"])
        return [(key, as_row(schema["values"], item) if seen else None) for key, item in value.items()]
    return str(value) if isinstance(value, UUID) else value


def _union_row(schema, value):
    branches = [branch for branch in schema if branch != "null"]
    if len(branches) == 1:
        return as_row(branches[0], value)
    chosen = branch_of(schema, value)
    row = {}
    for branch in branches:
        if has_column(branch):
            name = branch if isinstance(branch, str) else branch["name"]
            row[f"member_{name}"] = as_row(branch, value) if branch is chosen else None
    return row


def has_column(schema):
    """True if a column can show anything of a value."""
    if isinstance(schema, list):
        return any(has_column(branch) for branch in schema)
    if schema == "null":
        return False
    if isinstance(schema, dict) and schema["type"] == "array":
        return has_column(schema["items"])
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(has_something(field["type"]) for field in schema["fields"])
    return True


def has_something(schema):
    """True if a value of this schema may take bytes: a record of lists of nulls is a struct without members."""
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(has_something(field["type"]) for field in schema["fields"])
    return schema != "null"
