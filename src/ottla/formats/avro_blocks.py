"""Many payloads of one Avro schema read at once, by polars, out of a container file made around them in memory.

polars is given a schema of equal bytes and simpler meaning: enums are ints, maps arrays of entries, logical types and
names are gone. polars accepts some bytes that are no payload (an int of 40 bits, the boolean 2, a union's third branch
of two), and does not tell where one payload ends. `_Check` finds both out:

Write each value that was read in Avro's shortest encoding. No value can have been read from fewer bytes than that. So
if the shortest encodings of each row are as long as its payload, no row was read from less than its payload; and since
all rows together were read from no more than all payloads, each was read from exactly its own. Then the place of each
boolean and of each union's index is known too, and those bytes are looked at. A payload in a longer encoding than
necessary fails the check without being wrong; it is read by avro_rows.py.
"""

from __future__ import annotations

import io
import json

import numpy as np
import polars as pl
import pyarrow as pa
from polars.exceptions import PanicException, PolarsError

from ottla.formats.arrays import Numbers, items, numbers, offsets, valid, whole
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
from ottla.formats.avro_types import place
from ottla.formats.faults import BadPayload
from ottla.formats.wire import Bytes, Rows, extents

_SYNC = b"ottla-one-block."
_WIDTHS = {"boolean": 1, "float": 4, "double": 8}


def why_not(node: Node) -> str:
    """The reason why a schema's payloads cannot be read in blocks; empty where they can."""
    if is_empty(node):
        return "values of no bytes"
    match node:
        case RecordSchema():
            reasons = (why_not(field.node) for field in node.fields if not is_empty(field.node))
            return next((reason for reason in reasons if reason), "")
        case ArraySchema():
            return why_not(node.items)
        case Map():
            return why_not(node.values)
        case Union():
            found = optional(node)
            return "a union of several types" if found is None else why_not(found[0])
    return ""


class BlockReader:
    """Reads payloads of one schema; `why_not` of it must be empty."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._names = 0
        whole_row = {"type": "record", "name": "row", "fields": [{"name": place(0), "type": self._simple(node)}]}
        schema = json.dumps(whole_row).encode()
        entry = _long(len(b"avro.schema")) + b"avro.schema" + _long(len(schema)) + schema
        self._header = b"Obj\x01" + _long(1) + entry + _long(0) + _SYNC

    def read(self, payloads: pa.Array) -> pa.Array:
        """The plain values of all payloads, or `BadPayload` where one of them is bad or must be read alone."""
        starts, lengths, content = extents(payloads)
        body = content[int(starts[0]) : int(starts[-1] + lengths[-1])]
        container = b"".join((self._header, _long(len(payloads)), _long(len(body)), body.data, _SYNC))
        try:
            frame = pl.read_avro(io.BytesIO(container))
        except (PolarsError, PanicException, OSError) as fault:
            raise BadPayload(str(fault)) from None
        if frame.height != len(payloads):
            raise BadPayload(f"{frame.height} values in {len(payloads)} payloads")
        plain = whole(frame.to_arrow().column(0))
        _Check(self._node, body).all(plain, starts - starts[0], lengths)
        return plain

    def _simple(self, node: Node) -> object:
        match node:
            case Primitive():
                return node.kind
            case Enum():
                return "int"
            case FixedSchema():
                return {"type": "fixed", "name": self._name(), "size": node.size}
            case ArraySchema():
                return {"type": "array", "items": self._simple(node.items)}
            case Map():
                fields = [{"name": "k", "type": "string"}, {"name": "v", "type": self._simple(node.values)}]
                return {"type": "array", "items": {"type": "record", "name": self._name(), "fields": fields}}
            case RecordSchema():
                fields = [
                    {"name": place(at), "type": self._simple(field.node)}
                    for at, field in enumerate(node.fields)
                    if not is_empty(field.node)
                ]
                return {"type": "record", "name": self._name(), "fields": fields}
        return [self._simple(branch) for branch in node.branches]

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"


def _long(number: int) -> bytes:
    """A small number that is not negative, as Avro writes a long."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


class _Check:
    """Holds the values that were read against the payloads; see the module's docstring."""

    def __init__(self, node: Node, body: Bytes) -> None:
        self._node = node
        self._body = body
        self._ten_bytes = False
        """True if some number takes ten bytes: polars drops what is above 64 bits in the last of them."""

    def all(self, plain: pa.Array, starts: Rows, lengths: Rows) -> None:
        """Raise `BadPayload` unless each payload holds just its value."""
        if not np.array_equal(self._sizes(self._node, plain), lengths):
            raise BadPayload("a payload is not as long as its values")
        if self._light(self._node):
            self._look(self._node, plain, starts)

    def _refuse_above(self, highest: int, places: Rows) -> None:
        if bool(np.any(self._body[places] > highest)):
            raise BadPayload("a boolean, the index of a union or the last byte of a number is out of its range")

    def _sizes(self, node: Node, plain: pa.Array) -> Rows:
        """The size in bytes of each value in the shortest encoding."""
        match node:
            case Primitive(kind="int"):
                return self._long_sizes(numbers(plain, np.int32).astype(np.int64))
            case Enum():
                return self._long_sizes(numbers(plain, np.int32).astype(np.int64))
            case Primitive(kind="long"):
                return self._long_sizes(numbers(plain, np.int64))
            case Primitive(kind="bytes" | "string"):
                edges = offsets(plain)
                lengths = edges[1:] - edges[:-1]
                return lengths + self._long_sizes(lengths)
            case Primitive():
                return np.full(len(plain), _WIDTHS[node.kind], dtype=np.int64)
            case FixedSchema():
                return np.full(len(plain), node.size, dtype=np.int64)
            case RecordSchema():
                sizes = np.zeros(len(plain), dtype=np.int64)
                for field, part in _parts(node, plain):
                    sizes += self._sizes(field, part)
                return sizes
            case ArraySchema():
                return self._list_sizes(plain, self._sizes(node.items, items(plain)))
            case Map():
                return self._list_sizes(plain, self._entry_sizes(node, items(plain))[1])
        found = optional(node)
        assert found is not None
        return np.where(valid(plain), self._sizes(found[0], plain), 0) + 1

    def _entry_sizes(self, node: Map, entries: pa.Array) -> tuple[Rows, Rows]:
        """The sizes of keys, and of keys with their values."""
        keys = self._sizes(Primitive("string"), entries.field("k"))
        return keys, keys + self._sizes(node.values, entries.field("v"))

    def _list_sizes(self, plain: pa.Array, item_sizes: Rows) -> Rows:
        """One block: its count and its items; then the zero that ends a list, which is all of an empty one."""
        edges = offsets(plain)
        counts = edges[1:] - edges[:-1]
        upto = np.concatenate(([0], np.cumsum(item_sizes)))
        return upto[edges[1:]] - upto[edges[:-1]] + np.where(counts > 0, self._long_sizes(counts), 0) + 1

    def _long_sizes(self, values: Numbers) -> Rows:
        if not len(values):
            return np.zeros(0, dtype=np.int64)
        coded = ((values << 1) ^ (values >> 63)).view(np.uint64)
        low, high = int(coded.min()), int(coded.max())
        self._ten_bytes |= high >> 63 > 0
        size = max(1, -(-low.bit_length() // 7))
        sizes = np.full(len(values), size, dtype=np.int64)
        edge = 1 << (7 * size)
        while edge <= high:
            sizes += coded >= np.uint64(edge)
            edge <<= 7
        return sizes

    def _look(self, node: Node, plain: pa.Array, starts: Rows) -> None:
        """Look at the bytes that polars takes too lightly; each value's encoding starts at its place in `starts`."""
        match node:
            case Primitive(kind="boolean"):
                self._refuse_above(1, starts)
            case Primitive(kind="long"):
                values = numbers(plain, np.int64)
                self._refuse_above(1, starts[(values >= 1 << 62) | (values < -(1 << 62))] + 9)
            case RecordSchema():
                self._look_into(node, plain, starts)
            case ArraySchema():
                self._look_at_items(node.items, plain, items(plain), self._sizes(node.items, items(plain)), starts)
            case Map():
                entries = items(plain)
                keys, both = self._entry_sizes(node, entries)
                self._look_at_items(node.values, plain, entries.field("v"), both, starts, keys)
            case Union():
                other = optional(node)
                assert other is not None
                if bool(np.any(self._body[starts] & 0xFD)):
                    raise BadPayload("the index of a union is neither 0 nor 1")
                if self._light(other[0]):
                    present = np.flatnonzero(valid(plain))
                    self._look(other[0], plain.take(pa.array(present)), starts[present] + 1)

    def _look_into(self, node: RecordSchema, plain: pa.Array, starts: Rows) -> None:
        parts = _parts(node, plain)
        last = max((at for at, (field, _) in enumerate(parts) if self._light(field)), default=-1)
        for at, (field, part) in enumerate(parts[: last + 1]):
            if self._light(field):
                self._look(field, part, starts)
            if at < last:
                starts = starts + self._sizes(field, part)

    def _look_at_items(
        self, node: Node, plain: pa.Array, values: pa.Array, sizes: Rows, starts: Rows, skipped: Rows | None = None
    ) -> None:
        """Each item starts behind the count of its list and the items before it, a map's value behind its key."""
        if not self._light(node):
            return
        edges = offsets(plain)
        counts = edges[1:] - edges[:-1]
        upto = np.concatenate(([0], np.cumsum(sizes)))
        first = starts + np.where(counts > 0, self._long_sizes(counts), 0) - upto[edges[:-1]]
        span = slice(int(edges[0]), int(edges[-1]))
        places = np.repeat(first, counts) + upto[:-1][span]
        self._look(node, values[span], places if skipped is None else places + skipped[span])

    def _light(self, node: Node) -> bool:
        """True if a node has bytes to look at."""
        match node:
            case Primitive():
                return node.kind == "boolean" or (node.kind == "long" and self._ten_bytes)
            case RecordSchema():
                return any(self._light(field.node) for field in node.fields)
            case ArraySchema():
                return self._light(node.items)
            case Map():
                return self._light(node.values)
        return isinstance(node, Union)


def _parts(node: RecordSchema, plain: pa.Array) -> list[tuple[Node, pa.Array]]:
    return [(field.node, plain.field(place(at))) for at, field in enumerate(node.fields) if not is_empty(field.node)]
