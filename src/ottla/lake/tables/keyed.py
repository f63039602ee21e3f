"""Tables that keep the last row of each key: which rows of a round win, and which rows of the table they overtake.

Pure, in Arrow. Within one Kafka partition the higher offset is newer. Between partitions (the topic got more of them,
or the key is a field) the later timestamp is, then the higher partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.lake.columns.evolution import conform
from ottla.lake.columns.json_columns import DELETED, GROUP, UNCHANGED
from ottla.lake.columns.unchanged import ALONE, Mask, filled, pending
from ottla.lake.tables.base import TableFile
from ottla.stores.base import LakeRefused

ORDER = ("partition", "offset", "timestamp")
HELD_ROWS = 1 << 20

Partition = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class RoundChanges:
    """A round's changes, one row per key: the table's columns, DELETED, and GROUP, a place in `groups`."""

    rows: pa.Table
    key: tuple[str, ...]
    groups: tuple[Partition, ...]
    unavailable: str = ""
    """The placeholder of values that did not change; empty where there is none."""

    def pending(self) -> dict[str, Mask]:
        """By column, the changes whose value is still to be taken from the row that they overtake."""
        return pending(self.rows, self.key, self.unavailable)

    def without(self, losers: set[int]) -> Iterator[tuple[Partition, pa.Table]]:
        """The rows to insert, by partition: all but deletes and those at the places in `losers`."""
        keep = pc.invert(self.rows.column(DELETED)).to_numpy(zero_copy_only=False).copy()
        keep[sorted(losers)] = False
        kept = self.rows.filter(pa.array(keep))
        for place, partition in enumerate(self.groups):
            mine = kept.filter(pc.equal(kept.column(GROUP), place))
            rows = mine.drop_columns([name for name in (DELETED, GROUP, ALONE, UNCHANGED) if name in mine.column_names])
            if rows.num_rows:
                yield partition, rows


@dataclass(frozen=True, slots=True)
class OvertakenRows:
    """Rows of a file that a round's changes remove, and the places where changes are older than the rows."""

    keep: Mask
    losers: frozenset[int]
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The places of the rows that are removed, and beside them in `changes` those of the changes that overtake them."""
    changes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def mark_tombstones(columns: pa.Table, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows for a staged file: those whose record has no value are marked as deletes of their key."""
    return columns.append_column(DELETED, pc.is_null(values))


def keyless(rows: pa.Table, key: tuple[str, ...]) -> pa.ChunkedArray:
    """A mask of the rows that lack a part of their key; a keyed table cannot hold them."""
    found = pc.is_null(rows.column(key[0]))
    for name in key[1:]:
        found = pc.or_(found, pc.is_null(rows.column(name)))
    return found


def round_changes(
    read: Callable[[TableFile], Iterable[pa.Table]],
    files: Iterable[TableFile],
    schema: pa.Schema,
    key: tuple[str, ...],
    unavailable: str = "",
) -> RoundChanges:
    """The last row per key of a round's staged files, in the table's columns.

    No record may have had the key yet, so that the table lacks its columns: then the round has nothing but deletes
    without a key, which say nothing.
    """
    check_key(schema, key)
    lacking = [pa.field(name, pa.string()) for name in key if schema.get_field_index(name) < 0]
    marks = {ALONE: pa.bool_(), UNCHANGED: pa.list_(pa.string())}
    own = {DELETED: pa.bool_(), GROUP: pa.int32()} | (marks if unavailable else {})
    columns = pa.schema([*schema, *lacking, *(pa.field(name, kind) for name, kind in own.items())])
    groups: dict[Partition, int] = {}
    held = columns.empty_table()
    waiting: list[pa.Table] = []
    for file in files:
        group = groups.setdefault(file.partition, len(groups))
        for piece in read(file):
            waiting.append(conform(_as_changes(piece, file.partition, group), columns))
            if sum(table.num_rows for table in waiting) >= HELD_ROWS:
                held, waiting = last_per_key(pa.concat_tables([held, *waiting]), key, unavailable), []
    last = last_per_key(pa.concat_tables([held, *waiting]), key, unavailable)
    return RoundChanges(last, key, tuple(groups), unavailable)


def check_key(schema: pa.Schema, key: tuple[str, ...]) -> None:
    """LakeRefused where the key is no set of plain columns beside those that order the rows.

    A column that the table does not have yet is as good as any.
    """
    if not key:
        raise LakeRefused("a keyed table needs the names of its key's columns")
    for name in key:
        if name in ORDER or (schema.get_field_index(name) >= 0 and pa.types.is_nested(schema.field(name).type)):
            raise LakeRefused(f"the column '{name}' cannot be a key: a key is the record's key or plain fields")


def last_per_key(rows: pa.Table, key: tuple[str, ...], unavailable: str = "") -> pa.Table:
    """The newest row of each key, with the values of the row before in place of placeholders.

    A delete without its key is dropped; LakeRefused for another row without it.
    """
    lacking = keyless(rows, key)
    if pc.any(lacking).as_py():
        refused = rows.filter(pc.and_(lacking, pc.invert(rows.column(DELETED))))
        if refused.num_rows:
            first = refused.select(["partition", "offset"]).slice(0, 1).to_pylist()[0]
            raise LakeRefused(
                f"partition {first['partition']}, offset {first['offset']}: the record lacks its key "
                f"({', '.join(key)}), which a keyed table needs"
            )
        rows = rows.filter(pc.invert(lacking))
    if unavailable:
        rows = filled(rows, [*key, "partition"], ["offset"], key, unavailable)
    rows = _last(rows, [*key, "partition"], [("offset", "ascending")])
    if unavailable:
        rows = filled(rows, key, ["timestamp", "partition"], key, unavailable)
    return _last(rows, list(key), [("timestamp", "ascending"), ("partition", "ascending")])


def overtaken(held: pa.Table, changes: RoundChanges) -> OvertakenRows:
    """Compare the keys and order of one file's rows with a round's changes."""
    keep = np.ones(held.num_rows, dtype=np.bool_)
    renamed = [*changes.key, *(f"_new_{name}" for name in ORDER), "_change"]
    new = changes.rows.select([*changes.key, *ORDER]).append_column("_change", _places(changes.rows))
    old = held.select([*changes.key, *ORDER]).append_column("_row", _places(held))
    both = old.join(new.rename_columns(renamed), keys=list(changes.key), join_type="inner")
    newer = pc.fill_null(_newer(both), True)
    older = both.filter(newer)
    rows = older.column("_row").to_numpy()
    keep[rows] = False
    losers = frozenset(both.filter(pc.invert(newer)).column("_change").to_pylist())
    return OvertakenRows(keep, losers, rows, older.column("_change").to_numpy())


def staged_pieces(source: pa.NativeFile) -> Iterator[pa.Table]:
    """A staged file's rows, some at a time."""
    for batch in pq.ParquetFile(source).iter_batches(128 << 10):
        yield pa.Table.from_batches([batch])


def _as_changes(rows: pa.Table, partition: Partition, group: int) -> pa.Table:
    """Staged rows with their partition's values and with DELETED, from null values where nothing else says it."""
    if DELETED not in rows.column_names:
        gone = pc.is_null(rows.column("value")) if "value" in rows.column_names else pa.repeat(False, rows.num_rows)
        rows = rows.append_column(DELETED, gone)
    for name, value in partition:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
    return rows.append_column(GROUP, pa.repeat(pa.scalar(group, pa.int32()), rows.num_rows))


def _last(rows: pa.Table, group: list[str], order: list[tuple[str, str]]) -> pa.Table:
    rows = rows.take(pc.sort_indices(rows, sort_keys=order))
    keys = rows.select(group).append_column("_place", _places(rows))
    last = keys.group_by(group, use_threads=False).aggregate([("_place", "max")]).column("_place_max")
    return rows.take(last.combine_chunks().sort())


def _newer(both: pa.Table) -> pa.ChunkedArray:
    """For each joined row, true if the change is newer than the table's row."""
    old, new = [{name: both.column(prefix + name) for name in ORDER} for prefix in ("", "_new_")]
    later = pc.greater(new["timestamp"], old["timestamp"])
    tied = pc.and_(pc.equal(new["timestamp"], old["timestamp"]), pc.greater(new["partition"], old["partition"]))
    return pc.if_else(
        pc.equal(new["partition"], old["partition"]), pc.greater(new["offset"], old["offset"]), pc.or_(later, tied)
    )


def _places(rows: pa.Table) -> pa.Array:
    return pa.array(np.arange(rows.num_rows, dtype=np.int64))
