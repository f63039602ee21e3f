"""The rows that tables have before the first change, each a record of op `r`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from ottla.connect.plugins.capture.envelope import Events, Offset, Place
from ottla.connect.plugins.capture.shapes import Shape
from ottla.connect.records import PassedPlace, SourceRecord

Row = tuple[Any, ...]
log = logging.getLogger("ottla.connect")


class View(Protocol):
    """The state of a database that a snapshot shows."""

    def offset(self, *, completed: bool) -> Offset:
        """The offset of a record of the snapshot."""
        ...

    def origin(self, marker: str) -> Place:
        """The place of a record of the snapshot."""
        ...


async def records(
    rows: Callable[[Shape], AsyncIterator[Row]], view: View, shapes: Sequence[Shape], options: Mapping[str, Any],
    events: Events,
) -> AsyncIterator[list[SourceRecord]]:  # fmt: skip
    """The rows of all tables in lists, and the place behind them.

    The snapshot is complete with its last record, so one is always held back.
    """
    patterns = [re.compile(each, re.IGNORECASE) for each in options["snapshot.include.collection.list"]]
    wanted = [each for each in shapes if not patterns or any(p.fullmatch(each.table.full_name) for p in patterns)]
    log.info("a snapshot of %d tables begins at %s", len(wanted), view)
    found: list[SourceRecord] = []
    count = 0
    for shape in wanted:
        async for row, first, last in _marked(rows(shape)):
            marker = "first" if not count else "first_in_data_collection" if first else "true"
            at = view.origin("last_in_data_collection" if last and count else marker)
            now_us = time.time_ns() // 1000
            after = shape.row(row)
            found.append(events.change(shape, "r", None, after, at, now_us, view.offset(completed=False)))
            count += 1
            if len(found) > options["snapshot.fetch.size"]:
                yield found[:-1]
                del found[:-1]
    if found:
        found[-1].value.get("source").put("snapshot", "last")
        found[-1].source_offset = view.offset(completed=True)
        yield found
    else:
        yield [PassedPlace("", source_partition=events.partition, source_offset=view.offset(completed=True))]
    log.info("the snapshot is complete: %d rows", count)


async def _marked(rows: AsyncIterator[Row]) -> AsyncIterator[tuple[Row, bool, bool]]:
    """Rows with whether each is the first, and the last, of its table."""
    held: Row | None = None
    first = True
    async for row in rows:
        if held is not None:
            yield held, first, False
            first = False
        held = row
    if held is not None:
        yield held, first, True
