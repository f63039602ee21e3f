"""Sorts the rows of one piece on their way into files: some are filtered out, others have no place in the lake.

Pure; works on whole Arrow tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.lake.columns.event_types import kinds_in
from ottla.lake.columns.flat import flat_fields
from ottla.lake.columns.json_columns import EVENT_TIME, JsonBlock
from ottla.lake.columns.layout import Layout, event_times, in_calendar, placed, readable
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.steps import SteppedRecords
from ottla.lake.columns.values import lake_columns, lake_table
from ottla.lake.columns.windows import LeftOut
from ottla.lake.rounds.changes import changes, key_columns, row_names
from ottla.rows.arrow import all_numbers, indices, null_mask

if TYPE_CHECKING:
    from ottla.lake.columns.where import RowFilter

RECORD_COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")
TOO_LONG = "a field that divides the lake: its value is too long for the name of a folder"
NO_TEXT = "a field that divides the lake: its bytes are no text"

NO_DATE = "timestamp: an Iceberg table has times of the years 1 to 9999"

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Places = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class Sifted:
    """The rows for files, and the others: `faults` are rows of the batch with reasons."""

    rows: pa.Table
    places: Places
    """The row of the batch that each row was."""
    tombstones: Mask
    faults: list[tuple[int, str]]
    left_out: LeftOut | None = None

    def keep(self, kept: Mask, why: str = "") -> None:
        """Go on with some of the rows; with a reason the others are dead letters."""
        if kept.all():
            return
        if why:
            self.faults += [(row, why) for row in self.places[~kept].tolist()]
        self.rows = self.rows.take(indices(np.flatnonzero(kept)))
        self.places, self.tombstones = self.places[kept], self.tombstones[kept]

    def leave_out(self, others: Mask, times: Callable[[pa.Table], Places]) -> None:
        """Go on without some of the rows, which are neither rows nor dead letters; `times` gives their event times."""
        if not others.any():
            return
        left = LeftOut(self.places[others], times(self.rows.take(indices(np.flatnonzero(others)))))
        self.left_out = left if self.left_out is None else self.left_out.and_also(left)
        self.keep(~others)


class Sieve:
    """Sifts the rows of one topic, whose values make these columns; none where values stay bytes."""

    def __init__(self, layout: Layout, shape: LakeShape, columns: pa.Schema | None, topic: str = "") -> None:
        self._layout = layout
        self._shape = shape
        self._steps = shape.steps.of(topic)
        columns = None if columns is None else self._steps.columns(columns)
        self._filter = row_filter(shape)
        self.names = row_names(columns, shape)
        """The table's column of each field."""
        self._kinds = kinds_in(columns)
        self._key = key_columns(self.names, shape)
        values = {} if columns is None else lake_columns(columns, shape)
        self._event_column = values[layout.event_time].name if layout.event_time in values else ""
        fields = [] if columns is None else flat_fields(columns, shape.taken_apart)
        self._event_type = next((each.type for each in fields if each.name == layout.event_time), pa.null())

    def sift(self, batch: pa.RecordBatch, block: JsonBlock | None) -> Sifted:
        """Sift records, whose values were read into a block unless they stay bytes."""
        sifted = self._whole(batch) if block is None else self._read(batch, block)
        if self._filter is not None:
            self._filtered(sifted, self._filter)
        if self._shape.format == "iceberg":
            sifted.keep(in_calendar(all_numbers(sifted.rows.column("timestamp"))), NO_DATE)
        if self._layout.event_time:
            self._timed(sifted)
        if self._shape.key:
            changed = changes(sifted.rows, sifted.tombstones, self._shape, self._key, self._kinds)
            sifted.faults += [(int(sifted.places[row]), why) for row, why in changed.faults]
            sifted.rows = changed.rows
            sifted.places, sifted.tombstones = sifted.places[changed.places], sifted.tombstones[changed.places]
        if self._layout.fields:
            sifted.keep(readable(sifted.rows, self._layout, self.names), NO_TEXT)
            sifted.keep(placed(sifted.rows, self._layout, self.names), TOO_LONG)
        return sifted

    def _read(self, batch: pa.RecordBatch, block: JsonBlock) -> Sifted:
        """The record's own columns beside those of its value."""
        assert block.table is not None
        places = np.flatnonzero(block.good)
        record = batch if bool(block.good.all()) else batch.take(indices(places))
        stepped = self._stepped(block.table, record)
        assert stepped.values is not None
        values = lake_table(stepped.values, self._shape)
        rows = pa.table(
            {
                "key": record.column("key"),
                **dict(zip(values.column_names, values.columns, strict=True)),
                "headers": stepped.headers,
                **{name: record.column(name) for name in RECORD_COLUMNS[3:]},
            }
        )
        return self._behind(stepped, Sifted(rows, places, stepped.tombstones, list(block.faults)))

    def _whole(self, batch: pa.RecordBatch) -> Sifted:
        """Rows with values as they are."""
        stepped = self._stepped(None, batch)
        rows = pa.Table.from_batches([batch]).select(RECORD_COLUMNS)
        if stepped.headers is not batch.column("headers"):
            rows = rows.set_column(RECORD_COLUMNS.index("headers"), rows.schema.field("headers"), stepped.headers)
        return self._behind(stepped, Sifted(rows, np.arange(batch.num_rows), stepped.tombstones, []))

    def _stepped(self, values: pa.Table | None, records: pa.RecordBatch) -> SteppedRecords:
        """The records behind the steps."""
        if self._steps.text:
            return self._steps.apply(values, records)
        nothing = np.zeros(records.num_rows, dtype=np.bool_)
        return SteppedRecords(values, records.column("headers"), null_mask(records.column("value")), nothing, [])

    def _behind(self, stepped: SteppedRecords, sifted: Sifted) -> Sifted:
        """Go on without the rows that a step refused, and those that it dropped."""
        dropped, refused = stepped.filtered, np.zeros(len(stepped.filtered), dtype=np.bool_)
        refused[[row for row, _ in stepped.faults]] = True
        sifted.faults += [(int(sifted.places[row]), why) for row, why in stepped.faults]
        sifted.keep(~refused)
        sifted.leave_out(dropped[~refused], self._times)
        return sifted

    def _filtered(self, sifted: Sifted, chosen: RowFilter) -> None:
        """Leave out the rows that do not match. In a keyed table a tombstone passes, as it may delete a row."""
        matching, faults = chosen.matches(sifted.rows)
        failed = np.zeros(len(matching), dtype=np.bool_)
        failed[[row for row, _ in faults]] = True
        if self._shape.key:
            matching |= sifted.tombstones
            failed &= ~sifted.tombstones
        sifted.faults += [(int(sifted.places[row]), why) for row, why in faults if failed[row]]
        others = ~matching & ~failed
        sifted.leave_out(others, self._times)
        sifted.keep(matching[~others])

    def _times(self, rows: pa.Table) -> np.ndarray:
        """Event times of rows that are left out; the record's own where there is none."""
        own = all_numbers(rows.column("timestamp"))
        if not self._event_column:
            return own
        times, timely = self._event_times(rows)
        return np.where(timely, times, own)

    def _event_times(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """The event times by the field's own type: in a table a number may stand for a time of day, or nanoseconds."""
        column = rows.column(self._event_column)
        if column.type != self._event_type:
            known = pa.types.is_timestamp(self._event_type)
            column = column.cast(self._event_type) if known else pa.chunked_array([pa.nulls(rows.num_rows)])
        return event_times(column)

    def _timed(self, sifted: Sifted) -> None:
        """Go on with the rows that have an event time, with it. A tombstone has no fields: its own time counts."""
        own = all_numbers(sifted.rows.column("timestamp"))
        times, timely = own, np.zeros(sifted.rows.num_rows, dtype=np.bool_)
        if self._event_column:
            times, timely = self._event_times(sifted.rows)
        times = np.where(sifted.tombstones, own, times)
        sifted.rows = sifted.rows.append_column(EVENT_TIME, indices(times))
        sifted.keep(timely | sifted.tombstones, f"field {self._layout.event_time}: no time that can be read")


def row_filter(shape: LakeShape) -> RowFilter | None:
    """The filter of a lake; None where all rows are loaded, so that others need not load polars."""
    if not shape.where:
        return None
    from ottla.lake.columns.where import RowFilter

    return RowFilter(shape.where)
