"""The description of a table in the log, which stands before each change of its rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ottla.connect.errors import DataException
from ottla.connect.plugins.binlog import cells
from ottla.connect.plugins.binlog.cells import METADATA, NUMBERS, LogType, text_of

_TEXTS = (cells.VARCHAR, cells.VAR_STRING, cells.STRING, cells.BLOB)


@dataclass(frozen=True, slots=True)
class LogColumn:
    """A column as the log describes it."""

    name: str
    kind: LogType
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class TableMap:
    """A table as the log describes it. The decoder makes one object of one description."""

    number: int
    """Its number in the server; another one after each change of the table."""
    schema: str
    name: str
    columns: tuple[LogColumn, ...]
    key: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """DATABASE.TABLE."""
        return f"{self.schema}.{self.name}"


def lengthened(body: bytes, at: int) -> tuple[int, int]:
    """A number that says its own length: the number, and the place behind it."""
    first = body[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size


def table_of(body: bytes, charsets: Mapping[int, str]) -> TableMap:
    """The table that the body of an event describes. `charsets` has the character set of each collation."""
    number, at = int.from_bytes(body[:6], "little"), 8
    schema, at = _short(body, at)
    name, at = _short(body, at)
    count, at = lengthened(body, at)
    codes, at = body[at : at + count], at + count
    size, at = lengthened(body, at)
    kinds = list(_kinds(codes, body[at : at + size]))
    at += size
    nulls = int.from_bytes(body[at : at + (count + 7) // 8], "little")
    more = _Optional(body[at + (count + 7) // 8 :], f"{schema}.{name}")
    kinds = more.completed(kinds, charsets)
    names = more.names(count)
    columns = (LogColumn(names[place], kind, bool(nulls >> place & 1)) for place, kind in enumerate(kinds))
    return TableMap(number, schema, name, tuple(columns), tuple(names[place] for place in more.key()))


def _short(body: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + body[at]
    return body[at + 1 : end].decode(), end + 1


def _kinds(codes: bytes, metadata: bytes) -> Iterator[LogType]:
    at = 0
    for code in codes:
        size = METADATA.get(code, 0)
        found = int.from_bytes(metadata[at : at + size], "little")
        at += size
        if code == cells.STRING:  # two more bits of a length above 255 stand in the type, turned
            real, length = found & 0xFF, found >> 8
            if real & 0x30 != 0x30:
                real, length = real | 0x30, length | ((real & 0x30) ^ 0x30) << 4
            yield LogType(real, length << 8 if real in (cells.ENUM, cells.SET) else length)
        else:
            yield LogType(code, found)


class _Optional:
    """The parts that `binlog_row_metadata=FULL` adds: each a type, a length and a body."""

    def __init__(self, body: bytes, table: str) -> None:
        self._table = table
        self._parts: dict[int, bytes] = {}
        at = 0
        while at < len(body):
            size, begin = lengthened(body, at + 1)
            self._parts[body[at]], at = body[begin : begin + size], begin + size

    def names(self, count: int) -> list[str]:
        part, at, found = self._parts.get(4, b""), 0, list[str]()
        while at < len(part):
            size, begin = lengthened(part, at)
            found.append(part[begin : begin + size].decode())
            at = begin + size
        if len(found) != count:
            raise DataException(f"the log does not name the columns of {self._table}: SET GLOBAL "
                                "binlog_row_metadata=FULL on the server, and take a new snapshot")  # fmt: skip
        return found

    def key(self) -> list[int]:
        if 9 in self._parts:
            return list(_numbers(self._parts[9]))[::2]
        return list(_numbers(self._parts.get(8, b"")))

    def completed(self, kinds: list[LogType], charsets: Mapping[int, str]) -> list[LogType]:
        kinds = self._signed(kinds)
        kinds = self._in_charsets(kinds, _TEXTS, (2, 3), charsets)
        kinds = self._in_charsets(kinds, (cells.ENUM, cells.SET), (10, 11), charsets)
        for code, part in ((cells.SET, 5), (cells.ENUM, 6)):
            labels = _labels(self._parts.get(part, b""))
            kinds = [
                replace(each, labels=tuple(text_of(label, each.charset or "utf8mb4") for label in next(labels, ())))
                if each.code == code else each for each in kinds
            ]  # fmt: skip
        shapes = _numbers(self._parts.get(7, b""))
        return [replace(each, point=next(shapes, 0) == 1) if each.code == cells.GEOMETRY else each for each in kinds]

    def _signed(self, kinds: list[LogType]) -> list[LogType]:
        bits, place, found = self._parts.get(1, b""), 0, []
        for each in kinds:
            unsigned = False
            if each.code in NUMBERS and bits:
                unsigned = bool(bits[place // 8] & 0x80 >> place % 8)
                place += 1
            found.append(replace(each, unsigned=unsigned))
        return found

    def _in_charsets(
        self, kinds: list[LogType], codes: tuple[int, ...], parts: tuple[int, int], charsets: Mapping[int, str]
    ) -> list[LogType]:
        count = sum(each.code in codes for each in kinds)
        collations: list[int] = []
        if parts[0] in self._parts:  # a default, and those that differ from it by their places
            default, *others = _numbers(self._parts[parts[0]])
            collations = [default] * count
            for place, other in zip(others[::2], others[1::2], strict=True):
                collations[place] = other
        elif parts[1] in self._parts:
            collations = list(_numbers(self._parts[parts[1]]))
        ids = iter(collations)
        found = []
        for each in kinds:
            if each.code in codes and collations:
                collation = next(ids)
                each = replace(each, charset=charsets.get(collation, f"of the collation {collation}"))  # noqa: PLW2901
            found.append(each)
        return found


def _numbers(part: bytes) -> Iterator[int]:
    at = 0
    while at < len(part):
        number, at = lengthened(part, at)
        yield number


def _labels(part: bytes) -> Iterator[list[bytes]]:
    at = 0
    while at < len(part):
        count, at = lengthened(part, at)
        found = []
        for _ in range(count):
            size, begin = lengthened(part, at)
            found.append(part[begin : begin + size])
            at = begin + size
        yield found
