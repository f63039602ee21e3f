"""Values that change events leave out are taken from the rows that a round's changes overtake in the table."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.columns.evolution import conform
from ottla.lake.columns.json_columns import DELETED
from ottla.lake.columns.unchanged import lacking_values, restored
from ottla.lake.tables.keyed import OvertakenRows, RoundChanges

log = logging.getLogger("ottla.lake")


class RestoredValues:
    """Takes values that did not change from the rows that a round's changes overtake, one file after the other."""

    def __init__(self, changes: RoundChanges) -> None:
        self.changes = changes
        self._masks = changes.pending()
        self._lacking = np.zeros(changes.rows.num_rows, dtype=np.bool_)
        for mask in self._masks.values():
            self._lacking |= mask

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are wanted of overtaken rows; none where nothing is."""
        return tuple(self._masks)

    def wants(self, found: OvertakenRows) -> bool:
        """True if values of a file's overtaken rows are wanted."""
        return bool(self._lacking[found.changes].any())

    def take(self, found: OvertakenRows, held: pa.Table) -> None:
        """Take the values from all rows of a file, of which some are overtaken."""
        older = conform(held.take(pa.array(found.rows)), self.changes.rows.select(self.columns).schema)
        rows = restored(self.changes.rows, self._masks, found.changes, older)
        self.changes = replace(self.changes, rows=rows)

    def left(self) -> int:
        """The number of rows that still have a placeholder: no row before them had a value."""
        rows, text = self.changes.rows, self.changes.unavailable
        rows = rows.filter(pc.invert(rows.column(DELETED)))
        masks = list(lacking_values(rows, self.changes.key, text).values()) if text else []
        return int(np.logical_or.reduce(masks).sum()) if masks else 0


def warn_of_unavailable(table: str, restoring: RestoredValues) -> None:
    """Log the number of rows that keep the placeholder."""
    if left := restoring.left():
        log.warning(
            "%s: %d rows keep %r: their events left out a value, and the table has no earlier row with it. A snapshot "
            "of the source's table, or REPLICA IDENTITY FULL, brings it",
            table,
            left,
            restoring.changes.unavailable,
        )
