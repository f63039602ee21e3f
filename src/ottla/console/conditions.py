"""A search as it is asked for, and as a test over batches: bytes first, records only where the bytes are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.produce.partitioners import PARTITIONERS
from ottla.console.expression import Test, WrongExpression, expression, holds_whatever_case
from ottla.console.values import ShownRecord, Viewer
from ottla.console.view import PageQuery, wrong
from ottla.records.batch import Batch
from ottla.records.reader import Record, read_records

PARAMETERS = ("key", "text", "header", "where", "case", "partitioner")
ANYWHERE = "any"
PARTITIONER_CHOICES = ("murmur2", "consistent", ANYWHERE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions of a search, all of which hold for a hit."""

    key: str = ""
    """The whole key."""
    text: str = ""
    """A text in the key, the value or a header."""
    header: str = ""
    """NAME, or NAME=TEXT."""
    where: str = ""
    """An expression."""
    exact_case: bool = False
    partitioner: str = "murmur2"
    """Says which partition has the key; `any` looks into all."""

    @property
    def is_search(self) -> bool:
        """True if there is a condition."""
        return bool(self.key or self.text or self.header or self.where)

    def partition(self, count: int) -> int | None:
        """The one partition that can have the key; None where all may."""
        if not self.key or self.partitioner == ANYWHERE:
            return None
        return PARTITIONERS[self.partitioner](self.key.encode(), range(count), count)


def wanted(query: PageQuery, now_ms: int) -> Wanted:
    """The conditions in a page's parameters; HttpError 400 where the expression is none."""
    found = Wanted(
        query.given.get("key", ""),
        query.given.get("text", ""),
        query.text("header"),
        query.text("where"),
        query.flag("case"),
        query.choice("partitioner", PARTITIONER_CHOICES, "murmur2"),
    )
    if found.where:
        try:
            expression(found.where, now_ms)
        except WrongExpression as fault:
            raise wrong(f"expression {fault}") from None
    return found


class Match(NamedTuple):
    """A batch looked at: the hits, and how many records it has."""

    hits: list[ShownRecord]
    records: int


class Matcher:
    """Finds hits in batches."""

    def __init__(self, wanted: Wanted, viewer: Viewer, now_ms: int) -> None:
        self._viewer = viewer
        self._needles = _needles(wanted, now_ms) if viewer.sees_bytes else []
        self._tests = _tests(wanted, now_ms)

    @property
    def may_wait(self) -> bool:
        """True if a look may ask the registry for a schema."""
        return self._viewer.uses_schemas

    def look(self, partition: int, batch: Batch, start: int, end: int) -> Match:
        """The hits of a batch between two offsets; CorruptRecords where it cannot be read."""
        if self._needles:
            payload = bytes(batch.records_bytes())
            if not all(needle(payload) for needle in self._needles):
                return Match([], batch.records_count)
        records = [each for each in read_records(batch) if start <= each.offset < end]
        return Match(self.hits(partition, records), len(records))

    def hits(self, partition: int, records: Sequence[Record]) -> list[ShownRecord]:
        """The records for which all conditions hold."""
        shown = self._viewer.shown(partition, records)
        return [each for each in shown if all(test(each) for test in self._tests)]


def _needles(wanted: Wanted, now_ms: int) -> list[Callable[[bytes], bool]]:
    """Tests of a whole batch that are true wherever a hit is: the bytes of a text stand in it as they are."""
    needles = [_holds(text.encode()) for text in (wanted.key, wanted.header.partition("=")[0]) if text]
    if wanted.text and wanted.exact_case:
        needles.append(_holds(wanted.text.encode()))
    elif wanted.text and wanted.text.isascii():
        needles.append(lambda payload: holds_whatever_case(payload, wanted.text))
    if wanted.where and (needle := expression(wanted.where, now_ms).needle) is not None:
        needles.append(needle)
    return needles


def _holds(needle: bytes) -> Callable[[bytes], bool]:
    return lambda payload: needle in payload


def _tests(wanted: Wanted, now_ms: int) -> list[Test]:
    tests: list[Test] = []
    if wanted.key:
        tests.append(lambda record: record.key.kind != "null" and record.key.text == wanted.key)
    if wanted.text:
        tests.append(_contains(wanted.text, exact_case=wanted.exact_case))
    if wanted.header:
        name, equals, text = wanted.header.partition("=")
        tests.append(lambda record: any(key == name and (not equals or it == text) for key, it in record.headers))
    if wanted.where:
        tests.append(expression(wanted.where, now_ms).test)
    return tests


def _contains(text: str, *, exact_case: bool) -> Test:
    needle = text if exact_case else text.lower()

    def test(record: ShownRecord) -> bool:
        parts = [each.searched for each in (record.key, record.value) if each.kind != "null"]
        texts = [*parts, *(each for pair in record.headers for each in pair if each)]
        return any(needle in (each if exact_case else each.lower()) for each in texts)

    return test
