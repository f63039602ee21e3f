"""The messages of PostgreSQL's plugin `pgoutput`, version 1 of its protocol, from their bytes.

Pure. The layout is that of "Logical Replication Message Formats" in PostgreSQL's manual.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.connect.errors import DataException

EPOCH_US: Final = 946_684_800_000_000
"""PostgreSQL counts microseconds from 2000-01-01; this is that day in microseconds since 1970."""
_BEGIN: Final = struct.Struct(">QqI")
_COMMIT: Final = struct.Struct(">BQQq")
_U8, _U16, _U32, _U64 = struct.Struct(">B"), struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")
_COLUMN: Final = struct.Struct(">Ii")


class Unchanged(Enum):
    """Stands for a value that was not sent, because it is stored apart (TOAST) and the update left it alone."""

    VALUE = "unchanged"


UNCHANGED: Final = Unchanged.VALUE
Value = str | None | Unchanged
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins. `final_lsn` is the place of its commit."""

    final_lsn: int
    commit_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends; the log goes on at `end_lsn`."""

    lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The transaction came from another server by replication."""

    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as a relation message describes it."""

    name: str
    type_oid: int
    type_modifier: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """The columns of a table, for the changes that follow. `identity` is d, n, f or i."""

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type that is not built in."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    relation: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row. `old` is whole with `REPLICA IDENTITY FULL`; `key` has the identity alone, where that changed."""

    relation: int
    new: Row
    old: Row | None = None
    key: Row | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """A deleted row: the whole of it, or its identity alone."""

    relation: int
    old: Row | None = None
    key: Row | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Emptied tables."""

    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a client put into the log by `pg_logical_emit_message`."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Decoded = (
    Begin | Commit | Origin | Relation | NamedType | Insert | Update | Delete | Truncate | Message
)  # fmt: skip


class _Reader:
    """Reads one message from its front."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.at = payload, 1

    def number(self, of: struct.Struct) -> int:
        (found,) = of.unpack_from(self.payload, self.at)
        self.at += of.size
        return int(found)

    def parts(self, of: struct.Struct) -> tuple[int, ...]:
        found = of.unpack_from(self.payload, self.at)
        self.at += of.size
        return found

    def taken(self, size: int) -> bytes:
        found = self.payload[self.at : self.at + size]
        if len(found) != size:
            raise IndexError(f"{size} bytes are due, {len(found)} are left")
        self.at += size
        return found

    def text(self) -> str:
        end = self.payload.index(0, self.at)
        found = self.payload[self.at : end].decode()
        self.at = end + 1
        return found

    def letter(self) -> str:
        return chr(self.number(_U8))

    def row(self) -> Row:
        values: list[Value] = []
        for _ in range(self.number(_U16)):
            kind = self.letter()
            if kind == "t":
                values.append(self.taken(self.number(_U32)).decode())
            elif kind == "n":
                values.append(None)
            elif kind == "u":
                values.append(UNCHANGED)
            else:
                raise ValueError(f"a column of the kind {kind!r}")
        return tuple(values)


def decoded(payload: bytes) -> Decoded:
    """One message; DataException for one that is cut short or unknown."""
    reader = _Reader(payload)
    kind = chr(payload[0]) if payload else ""
    try:
        read = _KINDS[kind]
    except KeyError:
        raise DataException(f"pgoutput sent a message of the unknown kind {kind!r}: {payload[:40].hex()}") from None
    try:
        return read(reader)
    except (struct.error, ValueError, IndexError) as fault:
        raise DataException(f"pgoutput sent a message that cannot be read ({fault}): {payload[:40].hex()}") from fault


def _begin(reader: _Reader) -> Begin:
    final_lsn, at, xid = reader.parts(_BEGIN)
    return Begin(final_lsn, at + EPOCH_US, xid)


def _commit(reader: _Reader) -> Commit:
    _, lsn, end_lsn, at = reader.parts(_COMMIT)
    return Commit(lsn, end_lsn, at + EPOCH_US)


def _relation(reader: _Reader) -> Relation:
    oid, schema, table, identity = reader.number(_U32), reader.text(), reader.text(), reader.letter()
    columns = []
    for _ in range(reader.number(_U16)):
        in_identity, name = bool(reader.number(_U8) & 1), reader.text()
        type_oid, modifier = reader.parts(_COLUMN)
        columns.append(RelationColumn(name, type_oid, modifier, in_identity))
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _insert(reader: _Reader) -> Insert:
    relation = reader.number(_U32)
    _expect(reader, "N")
    return Insert(relation, reader.row())


def _update(reader: _Reader) -> Update:
    relation, kind = reader.number(_U32), reader.letter()
    before = reader.row() if kind in "KO" else None
    if kind != "N":
        _expect(reader, "N")
    new = reader.row()
    return Update(relation, new, before if kind == "O" else None, before if kind == "K" else None)


def _delete(reader: _Reader) -> Delete:
    relation, kind = reader.number(_U32), reader.letter()
    row = reader.row()
    return Delete(relation, row if kind == "O" else None, row if kind == "K" else None)


def _truncate(reader: _Reader) -> Truncate:
    count = reader.number(_U32)
    reader.number(_U8)
    return Truncate(tuple(reader.number(_U32) for _ in range(count)))


def _message(reader: _Reader) -> Message:
    transactional, lsn, prefix = bool(reader.number(_U8) & 1), reader.number(_U64), reader.text()
    return Message(transactional, lsn, prefix, reader.taken(reader.number(_U32)))


def _expect(reader: _Reader, kind: str) -> None:
    if (found := reader.letter()) != kind:
        raise ValueError(f"{kind!r} is due, not {found!r}")


_KINDS: Final[dict[str, Callable[[_Reader], Decoded]]] = {
    "B": _begin, "C": _commit, "R": _relation, "I": _insert, "U": _update, "D": _delete, "T": _truncate,
    "M": _message, "O": lambda reader: Origin(reader.number(_U64), reader.text()),
    "Y": lambda reader: NamedType(reader.number(_U32), reader.text(), reader.text()),
}  # fmt: skip
