"""The Arrow types of an Avro schema, and values as they lie in a payload turned into values of those types.

A value "as it lies" is `plain`: a decimal is bytes, a timestamp a number, an enum its index, a map a list of entries.
Both readers (avro_blocks.py and avro_rows.py) give plain arrays; `finished` makes columns of them.
"""

from __future__ import annotations

import pyarrow as pa

from ottla.formats.avro_schema import (
    ArraySchema,
    Enum,
    FixedSchema,
    Map,
    Node,
    Primitive,
    RecordSchema,
    Union,
    is_empty,
    optional,
)

UTC_MICROS = pa.timestamp("us", tz="UTC")
DURATION = pa.struct([(part, pa.int64()) for part in ("months", "days", "milliseconds")])
_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# Milliseconds become microseconds: Spark, Delta and Iceberg know no timestamp coarser than that.
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": UTC_MICROS,
    "timestamp-micros": UTC_MICROS,
    "timestamp-nanos": pa.timestamp("ns", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "uuid": pa.string(),
    "duration": DURATION,
}


def place(position: int) -> str:
    """The plain name of a record's field: Avro's own may be any, and twice the same in a nested record."""
    return f"f{position}"


def plain_type(node: Node) -> pa.DataType:
    """The type of plain values; null where nothing of the value has a place in columns."""
    if arrow_type(node) is None:
        return pa.null()
    match node:
        case Primitive():
            return _PLAIN[node.kind]
        case FixedSchema():
            return pa.binary()
        case Enum():
            return pa.int32()
        case RecordSchema():
            return pa.struct([(place(at), plain_type(field.node)) for at, field in enumerate(node.fields)])
        case ArraySchema():
            return pa.list_(plain_type(node.items))
        case Map():
            return pa.list_(pa.struct([("k", pa.string()), ("v", plain_type(node.values))]))
        case Union():
            if (other := only_branch(node)) is not None:
                return plain_type(other)
            return pa.struct([(place(at), plain_type(branch)) for at, branch in enumerate(node.branches)])


def only_branch(node: Union) -> Node | None:
    """The node that a union's column is of, unless it needs a struct of several."""
    if len(node.branches) == 1:
        return node.branches[0]
    found = optional(node)
    return None if found is None else found[0]


def arrow_type(node: Node) -> pa.DataType | None:
    """The type of the column; None where there is none, because a value can only be null or has no parts."""
    if is_empty(node):
        return None
    match node:
        case Primitive() | FixedSchema():
            if node.logical == "decimal":
                return (pa.decimal128 if node.precision <= 38 else pa.decimal256)(node.precision, node.scale)
            if node.logical:
                return _LOGICAL[node.logical]
            return pa.binary() if isinstance(node, FixedSchema) else _PLAIN[node.kind]
        case Enum():
            return pa.string()
        case RecordSchema():
            return pa.struct(record_fields(node))
        case ArraySchema():
            item = arrow_type(node.items)
            return None if item is None else pa.list_(item)
        case Map():
            return pa.map_(pa.string(), arrow_type(node.values) or pa.null())
        case Union():
            if (other := only_branch(node)) is not None:
                return arrow_type(other)
            fields = [pa.field(name, kind) for name, kind, _ in members(node)]
            return pa.struct(fields) if fields else None


def record_fields(node: RecordSchema) -> list[pa.Field]:
    """The fields of a record that are columns, without what evolution needs to know (avro.py adds it)."""
    kinds = [(field.name, arrow_type(field.node)) for field in node.fields]
    return [pa.field(name, kind) for name, kind in kinds if kind is not None]


def members(node: Union) -> list[tuple[str, pa.DataType, int]]:
    """A union's columns: `member_` and the branch's type or simple name, as Spark's stable identifiers do it."""
    names = [_branch_name(branch) for branch in node.branches]
    found = []
    for at, branch in enumerate(node.branches):
        kind = arrow_type(branch)
        if kind is not None:
            short = names[at].rpartition(".")[2]
            clear = sum(name.rpartition(".")[2] == short for name in names) == 1
            found.append((f"member_{short if clear else names[at].replace('.', '_')}", kind, at))
    return found


def _branch_name(node: Node) -> str:
    match node:
        case Primitive():
            return node.kind
        case ArraySchema():
            return "array"
        case Map():
            return "map"
        case Union():
            raise AssertionError("the parser refuses a union inside a union")
    return node.name
