"""The records of one change of a row: a deletion has its tombstone, and a changed key is a deletion and a new row.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.connect.data import Struct
from ottla.connect.plugins.capture.envelope import Events, Offset, Order, Place
from ottla.connect.plugins.capture.shapes import Shape
from ottla.connect.records import SourceRecord


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change, with the rows before and after it as far as they are known."""

    op: str
    """c, u or d."""
    before: Struct | None
    after: Struct | None
    at: Place
    now_us: int
    knows_key: bool = True
    """False where the row before does not tell its key."""


def records_of(
    events: Events, shape: Shape, change: RowChange, offset: Offset, held: Offset,
    next_order: Callable[[], Order | None], *, tombstones: bool,
) -> list[SourceRecord]:  # fmt: skip
    """The records of a change. The last one has `offset`; those before it have `held`, the offset before the change."""
    before, after, order = change.before, change.after, next_order()
    if change.op == "u" and before is not None and after is not None and change.knows_key:
        old, new = shape.key_of(before), shape.key_of(after)
        if old != new:
            to, away = events.key_header("newkey", new), events.key_header("oldkey", old)
            records = [events.change(shape, "d", before, None, change.at, change.now_us, held, order, to)]
            if tombstones:
                records.append(events.tombstone(shape, old, held, to))
            again = next_order()
            return [*records, events.change(shape, "c", None, after, change.at, change.now_us, offset, again, away)]
    record = events.change(shape, change.op, before, after, change.at, change.now_us, offset, order)
    if change.op == "d" and tombstones:
        record.source_offset = held  # the deletion is passed when its tombstone is
        return [record, events.tombstone(shape, record.key, offset, ())]
    return [record]
