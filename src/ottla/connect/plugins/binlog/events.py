"""The events of MariaDB's binary log, from their bytes.

Pure. The layout is that of "Replication Protocol" in MariaDB's manual. The server must write
`binlog_row_metadata=FULL`: then the log itself says how columns are called, and no history of schemas is needed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.connect.errors import DataException
from ottla.connect.plugins.binlog.cells import Cell, cell_of
from ottla.connect.plugins.binlog.table_map import TableMap, lengthened, table_of

_HEADER: Final = struct.Struct("<IBIIIH")
_ROWS: Final = {23: "c", 24: "u", 25: "d", 30: "c", 31: "u", 32: "d", 166: "c", 167: "u", 168: "d",
                169: "c", 170: "u", 171: "d"}  # fmt: skip
_SECOND_VERSION: Final = frozenset({30, 31, 32, 169, 170, 171})
_COMPRESSED: Final = frozenset({165, 166, 167, 168, 169, 170, 171})
_REFUSED: Final = {39: "binlog_row_value_options=PARTIAL_JSON", 40: "binlog_transaction_compression"}
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class At:
    """The place of an event in the log."""

    ts_s: int
    server_id: int
    begin: int
    end: int
    """The place behind it in its file; 0 for an event that is in no file."""


@dataclass(frozen=True, slots=True)
class Rotate:
    """The log goes on in a file."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Gtid:
    """A group of events begins."""

    domain: int
    server_id: int
    sequence: int
    standalone: bool
    """True for a group of one statement, which has no end of its own."""

    def __str__(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.sequence}"


@dataclass(frozen=True, slots=True)
class Query:
    """A statement: a definition, or the bounds of a group."""

    database: str
    text: str


@dataclass(frozen=True, slots=True)
class Xid:
    """A transaction is committed."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction of XA is prepared, or committed at once."""

    one_phase: bool


@dataclass(frozen=True, slots=True)
class Annotation:
    """The statement whose rows follow."""

    text: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Changed rows of one table, each with the row before and the row after."""

    op: str
    table: TableMap
    rows: list[tuple[Row | None, Row | None]]


Event = Rotate | Gtid | Query | Xid | Prepared | Annotation | TableMap | Rows


@dataclass(slots=True)
class Decoder:
    """Follows one log: rows are told apart by the tables that were described before."""

    charsets: Mapping[int, str]
    checksums: bool
    """True where events end with a CRC32; each file says it for itself."""
    _tables: dict[int, TableMap] = field(default_factory=dict)
    _described: dict[bytes, TableMap] = field(default_factory=dict)
    _cells: dict[TableMap, list[Cell]] = field(default_factory=dict)

    def decoded(self, event: bytes) -> tuple[At, Event | None]:
        """An event and its place; None for one that says nothing of rows."""
        ts_s, code, server_id, size, end, _ = _HEADER.unpack_from(event)
        at = At(ts_s, server_id, max(0, end - size), end)
        if code == 15:  # the format of a file: its last bytes are the kind of checksum, and one of its own
            self.checksums = event[-5] == 1
            for known in (self._tables, self._described, self._cells):
                known.clear()
            return at, None
        body = self._checked(event, code)
        if code in _REFUSED:
            raise DataException(f"the log was written with {_REFUSED[code]}: switch it off, and take a new snapshot")
        if code in _ROWS:
            return at, self._rows(code, body)
        return at, self._other(code, body, server_id)

    def _checked(self, event: bytes, code: int) -> bytes:
        if not self.checksums:
            return event[_HEADER.size :]
        body, found = event[:-4], int.from_bytes(event[-4:], "little")
        if zlib.crc32(body) == found:
            return body[_HEADER.size :]
        if code in (4, 27):  # these are made for the reader, and may have no checksum
            return event[_HEADER.size :]
        raise DataException("an event of the log does not fit its checksum: the server's file is damaged")

    def _other(self, code: int, body: bytes, server_id: int) -> Event | None:
        match code:
            case 2 | 165:
                return _query(body, compressed=code == 165)
            case 4:
                return Rotate(body[8:].decode(), int.from_bytes(body[:8], "little"))
            case 16:
                return Xid()
            case 19:
                if body not in self._described:
                    self._described[body] = table_of(body, self.charsets)
                made = self._tables[int.from_bytes(body[:6], "little")] = self._described[body]
                return made
            case 38:
                return Prepared(one_phase=body[0] == 1)
            case 160:
                return Annotation(body.decode("utf-8", "replace"))
            case 162:
                sequence, domain, flags = struct.unpack_from("<QIB", body)
                return Gtid(domain, server_id, sequence, standalone=bool(flags & 1))
        return None

    def _rows(self, code: int, body: bytes) -> Rows:
        number, at = int.from_bytes(body[:6], "little"), 8
        if code in _SECOND_VERSION:
            at += int.from_bytes(body[8:10], "little")
        table = self._tables.get(number)
        if table is None:
            raise DataException(f"the log has rows of the table {number}, which it did not describe before")
        return Rows(_ROWS[code], table, list(self._changes(code, body, at, table)))

    def _changes(self, code: int, body: bytes, at: int, table: TableMap) -> Iterator[tuple[Row | None, Row | None]]:
        count, at = lengthened(body, at)
        if count != len(table.columns):
            raise DataException(
                f"rows of {table.full_name} have {count} columns, but {len(table.columns)} are described"
            )
        size, op = (count + 7) // 8, _ROWS[code]
        for _ in range(2 if op == "u" else 1):
            if body[at : at + size] != ((1 << count) - 1).to_bytes(size, "little"):
                raise DataException(f"rows of {table.full_name} are not whole: set binlog_row_image=FULL")
            at += size
        if code in _COMPRESSED:
            body, at = _inflated(body, at), 0
        if table not in self._cells:
            self._cells[table] = [cell_of(each.kind) for each in table.columns]
        cells = self._cells[table]
        while at < len(body):
            before = after = None
            if op != "c":
                before, at = _row(body, at, size, cells)
            if op != "d":
                after, at = _row(body, at, size, cells)
            yield before, after


def _row(body: bytes, at: int, size: int, cells: list[Cell]) -> tuple[Row, int]:
    nulls = int.from_bytes(body[at : at + size], "little")
    at += size
    found: list[object] = []
    for place, cell in enumerate(cells):
        if nulls >> place & 1:
            found.append(None)
        else:
            value, at = cell(body, at)
            found.append(value)
    return tuple(found), at


def _query(body: bytes, *, compressed: bool) -> Query:
    name_size, variables = body[8], int.from_bytes(body[11:13], "little")
    at = 13 + variables
    name = body[at : at + name_size].decode()
    text = body[at + name_size + 1 :]
    if compressed:
        text = _inflated(text, 0)
    return Query(name, text.decode("utf-8", "replace"))


def _inflated(body: bytes, at: int) -> bytes:
    """Bytes that `log_bin_compress` made small: a head with the size of the length, the length, zlib."""
    return zlib.decompress(body[at + 1 + (body[at] & 7) :])
