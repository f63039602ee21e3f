"""A topic's Iceberg table: rounds become snapshots, and the table's properties say how far each loader is.

The guard is a property `ottla.loader.LOADER`, set in the same commit as the round's snapshot: it outlives expired
snapshots and other writers' commits. Each round's snapshot changes the main branch, which the catalog compares, so
that of racing commits one wins. The library's own retry is off (see iceberg_columns.py).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from ottla.lake.columns.evolution import plain_schema
from ottla.lake.columns.held_types import check_types
from ottla.lake.columns.names import check_column_names
from ottla.lake.tables.attempts import commit_once
from ottla.lake.tables.base import Compacted, LoaderStanding, TableFile, TableRound, Uncommitted
from ottla.lake.tables.iceberg_columns import IcebergColumns
from ottla.lake.tables.iceberg_compact import Compaction
from ottla.lake.tables.iceberg_expire import expire_snapshots, unreferenced
from ottla.lake.tables.iceberg_files import read, tasks_of, write
from ottla.lake.tables.iceberg_place import CatalogPlace, IcebergTransaction, told_apart
from ottla.lake.tables.keyed import ORDER, RoundChanges, overtaken, round_changes, staged_pieces
from ottla.lake.tables.restoring import RestoredValues, warn_of_unavailable
from ottla.lake.tables.rounds import (
    refuse_another_topic,
    standing_after,
    standing_from_text,
    standing_text,
    standing_to_json,
)

GUARD, TOKEN = "ottla.loader.", "ottla.commit"


class IcebergTopic:
    """One topic's Iceberg table; its first commit makes it."""

    def __init__(
        self,
        lake_url: str,
        topic: str,
        *,
        partition_by: tuple[str, ...] = (),
        catalog: str = "",
        namespace: str = "ottla",
    ) -> None:
        self.topic = topic
        self._partition_by = partition_by
        self._place = CatalogPlace(lake_url, topic, catalog, namespace)

    def standing(self, loader: str) -> LoaderStanding | None:
        return next((standing for standing in self.standings() if standing.loader == loader), None)

    def standings(self) -> list[LoaderStanding]:
        with told_apart():
            table = self._place.load()
        return [] if table is None else standings_of(table)

    def columns(self) -> pa.Schema:
        with told_apart():
            table = self._place.load()
        return pa.schema([]) if table is None else plain_schema(table.schema().as_arrow())

    def check(self, done: TableRound) -> None:
        check_column_names(done.schema.names)
        check_types(done.schema, "iceberg")
        with told_apart():
            IcebergColumns(self._place, self._partition_by, done.schema).check(self._place.load())

    def commit(self, done: TableRound) -> bool:
        """Add a round's files in one snapshot."""

        def attempt(table: Table, token: str) -> None:
            change = IcebergTransaction(table)
            properties = self._record(change, table, done, token)
            if done.files:
                paths = [f"{self._place.lake}/{file.path}" for file in done.files]
                change.add_files(paths, snapshot_properties=properties, check_duplicate_files=False)
            else:
                with change.update_snapshot(snapshot_properties=properties).fast_append():
                    pass  # a snapshot without files: the catalog compares snapshots, and so finds a racing round
            change.commit_transaction()

        return self._commit_round(done, attempt)

    def commit_keyed(self, done: TableRound, key: tuple[str, ...]) -> bool:
        """Put a round's changes into the table by key: files that hold an older row of a key are rewritten."""

        def attempt(table: Table, token: str) -> None:
            held = next((standing for standing in standings_of(table) if standing.loader == done.loader), None)
            refuse_another_topic(held, done)
            schema = plain_schema(table.schema().as_arrow())

            def staged(file: TableFile) -> Iterator[pa.Table]:
                with table.io.new_input(f"{self._place.lake}/{file.path}").open() as source:
                    yield from staged_pieces(source)

            changes = round_changes(staged, done.files, schema, key, done.unavailable)
            change = IcebergTransaction(table)
            properties = self._record(change, table, done, token)
            with change.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
                for old, new in _keyed_files(table, changes):
                    if old is not None:
                        snapshot.delete_data_file(old)
                    if new is not None:
                        snapshot.append_data_file(new)
            change.commit_transaction()

        return self._commit_round(done, attempt)

    def compact(self, target_bytes: int = 256 << 20) -> Compacted:
        """Replace small files of a partition by larger ones in one snapshot."""
        with told_apart():
            if self._place.load() is None:
                return Compacted()
        compaction = Compaction(target_bytes)
        commit_once(self._place.name, self._place.existing, lambda table: None, compaction.attempt, told_apart)
        return compaction.done

    def expire(
        self, older_than: timedelta = timedelta(days=7), uncommitted: Uncommitted = lambda name: False
    ) -> list[str]:
        """Forget older snapshots, and remove files that no snapshot names once they are older than that."""
        before = datetime.now(UTC) - older_than
        with told_apart():
            if self._place.load() is None:
                return []
        commit_once(
            self._place.name,
            self._place.existing,
            lambda table: None,
            lambda table: expire_snapshots(table, before),
            told_apart,
        )
        with told_apart():
            table = self._place.existing()
            names = [f"{self.topic}/{name}" for name in sorted(unreferenced(table, before))]
            gone = [name for name in names if not uncommitted(name)]
            for name in gone:
                table.io.delete(f"{table.location()}/{name.removeprefix(f'{self.topic}/')}")
        return gone

    def _commit_round(self, done: TableRound, attempt: Callable[[Table, str], None]) -> bool:
        assert done.topic == self.topic
        check_column_names(done.schema.names)
        columns = IcebergColumns(self._place, self._partition_by, done.schema)
        token = uuid.uuid4().hex

        def standing(table: Table) -> bool | None:
            text = table.properties.get(GUARD + done.loader)
            if text is None or standing_from_text(text).number < done.number:
                return None
            return any(
                snapshot.summary is not None and snapshot.summary.additional_properties.get(TOKEN) == token
                for snapshot in table.metadata.snapshots
            )

        def reload() -> Table:
            table = self._place.load() or columns.create()
            return table if standing(table) is not None else columns.evolved(table)

        return commit_once(self._place.name, reload, standing, lambda table: attempt(table, token), told_apart)

    def _record(self, change: IcebergTransaction, table: Table, done: TableRound, token: str) -> dict[str, str]:
        """Put the guard into the transaction; returns the progress of all loaders in the snapshot."""
        after = standing_after(done)
        change.set_properties({GUARD + done.loader: standing_text(after)})
        others = {standing.loader: standing for standing in standings_of(table)}
        loaders = [standing_to_json(standing) for _, standing in sorted((others | {done.loader: after}).items())]
        return {
            "ottla.loader": done.loader,
            "ottla.round": str(done.number),
            "ottla.loaders": json.dumps(loaders, separators=(",", ":")),
            TOKEN: token,
        }


def standings_of(table: Table) -> list[LoaderStanding]:
    """The standings of a loaded table, sorted by loader."""
    texts = [text for name, text in table.properties.items() if name.startswith(GUARD)]
    return sorted((standing_from_text(text) for text in texts), key=lambda standing: standing.loader)


def _keyed_files(table: Table, changes: RoundChanges) -> Iterator[tuple[DataFile | None, DataFile | None]]:
    """Files to take out of the table with the file that comes in their place, then the files of new rows."""
    if not changes.rows.num_rows:
        return
    losers: set[int] = set()
    restoring = RestoredValues(changes)
    keys = table.schema().select(*changes.key, *ORDER)
    for task in tasks_of(table):
        pieces = list(read(table, task, keys))
        if not pieces:
            continue
        found = overtaken(pa.concat_tables(pieces), changes)
        losers |= found.losers
        if restoring.wants(found):
            wanted = table.schema().select(*restoring.columns)
            restoring.take(found, pa.concat_tables(list(read(table, task, wanted))))
        if not found.keep.all():
            yield task.file, write(table, table.metadata, _sieved(table, task, found.keep))
    warn_of_unavailable(".".join(table.name()), restoring)
    for _, rows in restoring.changes.without(losers):
        yield None, write(table, table.metadata, [rows])


def _sieved(table: Table, task: FileScanTask, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Iterator[pa.Table]:
    """A file's rows but those that were overtaken, by their place in it."""
    begin = 0
    for piece in read(table, task, table.schema()):
        yield piece.filter(pa.array(keep[begin : begin + piece.num_rows]))
        begin += piece.num_rows
