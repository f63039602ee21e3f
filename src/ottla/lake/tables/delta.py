"""A topic's Delta table at LAKE/TOPIC: rounds become commits that carry the loader's transaction.

The guard is the log's own: a commit holds the transaction (loader, round number), and two commits of one loader
conflict by protocol. Every commit is tried against one version of the table and no other (`max_commit_retries=0`),
because the library's own second try would put a rewrite on top of rows that it has not read.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from ottla.lake.columns.evolution import conform, plain_schema
from ottla.lake.columns.held_types import check_types
from ottla.lake.columns.names import check_column_names
from ottla.lake.tables.attempts import commit_once
from ottla.lake.tables.base import Compacted, LoaderStanding, TableFile, TableRound, Uncommitted
from ottla.lake.tables.delta_columns import CHECKPOINT_EVERY, HOOKS, DeltaColumns, refuse_deletion_vectors
from ottla.lake.tables.delta_files import (
    DataFile,
    add_action,
    files_of,
    listed_files,
    remove_action,
    rewrite,
    unneeded,
    write,
)
from ottla.lake.tables.delta_log import read_transactions, standings_in, transactions_of
from ottla.lake.tables.delta_place import DeltaPlace, told_apart
from ottla.lake.tables.keyed import ORDER, RoundChanges, overtaken, round_changes, staged_pieces
from ottla.lake.tables.partitions import partition_columns, partition_folder
from ottla.lake.tables.restoring import RestoredValues, warn_of_unavailable
from ottla.lake.tables.rounds import refuse_another_topic, standing_after, standing_to_json

log = logging.getLogger("ottla.lake")
TOKEN, STANDING = "ottla.commit", "ottla"


class DeltaTopic:
    """One topic's Delta table; its first commit makes it."""

    def __init__(self, lake_url: str, topic: str, *, partition_by: tuple[str, ...] = ()) -> None:
        self.topic = topic
        self._lake = DeltaPlace(lake_url.rstrip("/"))
        self._place = DeltaPlace(f"{lake_url.rstrip('/')}/{topic}")
        self._partition_columns = partition_columns(partition_by)

    def standing(self, loader: str) -> LoaderStanding | None:
        return next((standing for standing in self.standings() if standing.loader == loader), None)

    def standings(self) -> list[LoaderStanding]:
        with told_apart():
            return [] if self._place.load() is None else standings_in(read_transactions(self._place.files()))

    def columns(self) -> pa.Schema:
        with told_apart():
            table = self._place.load()
        return pa.schema([]) if table is None else plain_schema(pa.schema(table.schema()))

    def check(self, done: TableRound) -> None:
        check_column_names(done.schema.names)
        check_types(done.schema, "delta")
        with told_apart():
            DeltaColumns(self._place, self._partition_columns, done.schema).check(self._place.load())

    def commit(self, done: TableRound) -> bool:
        """Add a round's files in one commit."""

        def actions(table: DeltaTable) -> list[AddAction | RemoveAction]:
            files = self._place.files()
            return [
                add_action(files, self._inside(file), self._partition_of(file), bytes=file.bytes) for file in done.files
            ]

        return self._commit_round(done, actions)

    def commit_keyed(self, done: TableRound, key: tuple[str, ...]) -> bool:
        """Put a round's changes into the table by key: files that hold an older row of a key are rewritten."""

        def read(file: TableFile) -> Iterator[pa.Table]:
            with self._lake.files().open_input_file(file.path) as source:
                yield from staged_pieces(source)

        def actions(table: DeltaTable) -> list[AddAction | RemoveAction]:
            refuse_another_topic(self.standing(done.loader), done)
            refuse_deletion_vectors(table, self._place.url)
            schema = plain_schema(pa.schema(table.schema()))
            return list(
                self._keyed_actions(table, schema, round_changes(read, done.files, schema, key, done.unavailable))
            )

        return self._commit_round(done, actions)

    def compact(self, target_bytes: int = 256 << 20) -> Compacted:
        """Replace small files by larger ones; a rewrite that conflicts with another one is begun anew."""
        counts: list[Compacted] = []

        def attempt(table: DeltaTable) -> None:
            before = {file.path for file in files_of(table)}
            done = table.optimize.compact(target_size=target_bytes, post_commithook_properties=HOOKS)
            counts.append(Compacted(int(done["numFilesRemoved"]), int(done["numFilesAdded"])))
            self._place.make_files_durable({file.path for file in files_of(table)} - before)
            self._place.make_durable(table.version())

        with told_apart():
            if self._place.load() is None:
                return Compacted()
        commit_once(self._place.url, self._place.existing, lambda table: None, attempt, told_apart)
        return counts[-1]

    def expire(
        self, older_than: timedelta = timedelta(days=7), uncommitted: Uncommitted = lambda name: False
    ) -> list[str]:
        """Remove files that the log does not name, or names as removed, once they are older than that."""
        with told_apart():
            if self._place.load() is None:
                return []
            files = self._place.files()
            listed = listed_files(files)
            table = self._place.existing()
            unnamed = unneeded(table, files, listed, time.time() - older_than.total_seconds())
            gone = sorted(path for path in unnamed if not uncommitted(f"{self.topic}/{path}"))
            for path in gone:
                files.delete_file(path)
            table.create_checkpoint()
            table.cleanup_metadata()
        return [f"{self.topic}/{path}" for path in gone]

    def _commit_round(
        self, done: TableRound, actions: Callable[[DeltaTable], Sequence[AddAction | RemoveAction]]
    ) -> bool:
        assert done.topic == self.topic
        check_column_names(done.schema.names)
        columns = DeltaColumns(self._place, self._partition_columns, done.schema)
        token = uuid.uuid4().hex

        def standing(table: DeltaTable) -> bool | None:
            held = table.transaction_version(done.loader)
            if held is None or held < done.number:
                return None
            return any(entry.get(TOKEN) == token for entry in table.history(100))

        def reload() -> DeltaTable:
            table = self._place.load() or columns.create()
            return table if standing(table) is not None else columns.evolved(table)

        return commit_once(
            self._place.url,
            reload,
            standing,
            lambda table: self._write(table, actions(table), done, token),
            told_apart,
        )

    def _write(
        self, table: DeltaTable, actions: Sequence[AddAction | RemoveAction], done: TableRound, token: str
    ) -> None:
        """Commit actions and the round's transactions as the version after the loaded one."""
        standing = standing_after(done)
        self._place.make_files_durable(action.path for action in actions if isinstance(action, AddAction))
        table.create_write_transaction(
            list(actions),
            "append",
            table.schema(),
            table.metadata().partition_columns,
            commit_properties=CommitProperties(
                custom_metadata={STANDING: standing_to_json(standing), TOKEN: token},
                max_commit_retries=0,
                app_transactions=[Transaction(*entry) for entry in transactions_of(standing).items()],
            ),
            post_commithook_properties=HOOKS,
        )
        version = table.version() + 1
        self._place.make_durable(version)
        if version % CHECKPOINT_EVERY == 0:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Write a checkpoint; without one the table is as right, and slower to open."""
        try:
            self._place.existing().create_checkpoint()
        except (DeltaError, OSError) as fault:
            log.warning("%s: no checkpoint was written: %s", self._place.url, fault)

    def _keyed_actions(
        self, table: DeltaTable, schema: pa.Schema, changes: RoundChanges
    ) -> Iterator[AddAction | RemoveAction]:
        """Rewrite the files whose rows the changes overtake, and write the changes that are newer than the table."""
        if not changes.rows.num_rows:
            return
        files = self._place.files()
        losers: set[int] = set()
        restoring = RestoredValues(changes)
        for file in files_of(table):
            found = overtaken(self._columns_of(file, schema, (*changes.key, *ORDER)), changes)
            losers |= found.losers
            if found.keep.all():
                continue
            if restoring.wants(found):
                restoring.take(found, self._columns_of(file, schema, restoring.columns))
            yield remove_action(file)
            if (copy := rewrite(files, file, _Sieve(found.keep), schema=None)) is not None:
                yield copy
        warn_of_unavailable(self._place.url, restoring)
        for partition, rows in restoring.changes.without(losers):
            values = dict(partition)
            inside = rows.drop_columns([name for name in self._partition_columns if name in rows.column_names])
            if (added := write(files, iter([inside]), inside.schema, partition_folder(partition), values)) is not None:
                yield added

    def _columns_of(self, file: DataFile, schema: pa.Schema, names: tuple[str, ...]) -> pa.Table:
        """Some columns of a file's rows."""
        wanted = pa.schema([schema.field(name) for name in names])
        with self._place.files().open_input_file(file.path) as source:
            parquet = pq.ParquetFile(source)
            held = parquet.read(columns=[name for name in wanted.names if name in parquet.schema_arrow.names])
        for name, value in file.partition.items():
            if name in names and name not in held.column_names:
                held = held.append_column(name, pa.repeat(pa.scalar(value, pa.string()), held.num_rows))
        return conform(held, wanted)

    def _inside(self, file: TableFile) -> str:
        """A file's path relative to the table."""
        assert file.path.startswith(f"{self.topic}/"), f"{file.path} does not lie in the table's folder"
        return file.path.removeprefix(f"{self.topic}/")

    def _partition_of(self, file: TableFile) -> dict[str, str | None]:
        values = dict(file.partition)
        assert tuple(values) == self._partition_columns, f"{file.path} has the partition columns {tuple(values)}"
        return values


class _Sieve:
    """Drops rows of a file that is read piece by piece, by their place in it."""

    def __init__(self, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        self._keep = keep
        self._begin = 0

    def __call__(self, rows: pa.Table) -> pa.Table:
        self._begin, begin = self._begin + rows.num_rows, self._begin
        return rows.filter(pa.array(self._keep[begin : self._begin]))
