"""Compaction of an Iceberg table: small files of one partition become larger ones with the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from ottla.lake.tables.base import Compacted
from ottla.lake.tables.iceberg_files import read, tasks_of, write
from ottla.lake.tables.iceberg_place import IcebergTransaction


class Compaction:
    """One compaction through as many tries as others' commits make necessary.

    A bin of files that was copied keeps its copy for the next try; a bin that lost one of its files is dropped.
    """

    def __init__(self, target_bytes: int) -> None:
        self._target_bytes = target_bytes
        self._copies: dict[frozenset[str], DataFile | None] = {}
        self.done = Compacted()

    def attempt(self, table: Table) -> None:
        """Copy the bins of the loaded table, and replace their files in one snapshot."""
        tasks = {task.file.file_path: task for task in tasks_of(table)}
        copied = {name for names in self._copies for name in names}
        whole = {names: copy for names, copy in self._copies.items() if names <= tasks.keys()}
        fresh = [task for path, task in tasks.items() if path not in copied]
        for bin_ in bins(fresh, self._target_bytes, table.spec().spec_id):
            names = frozenset(task.file.file_path for task in bin_)
            whole[names] = self._copies[names] = write(table, table.metadata, _rows(table, bin_))
        if not whole:
            return
        change = IcebergTransaction(table)
        with change.update_snapshot(snapshot_properties={"ottla.compaction": "true"}).overwrite() as snapshot:
            for names, copy in whole.items():
                for name in sorted(names):
                    snapshot.delete_data_file(tasks[name].file)
                if copy is not None:
                    snapshot.append_data_file(copy)
        change.commit_transaction()
        self.done = Compacted(sum(map(len, whole)), sum(copy is not None for copy in whole.values()))


def bins(tasks: list[FileScanTask], target_bytes: int, spec_id: int) -> Iterator[list[FileScanTask]]:
    """Files to put together: of one partition, each under the target, together about as large as it."""
    groups: dict[str, list[FileScanTask]] = {}
    for task in tasks:
        if task.file.spec_id == spec_id and task.file.file_size_in_bytes < target_bytes:
            groups.setdefault(repr(task.file.partition), []).append(task)
    for group in groups.values():
        held: list[FileScanTask] = []
        size = 0
        for task in group:
            if held and size + task.file.file_size_in_bytes > target_bytes:
                if len(held) > 1:
                    yield held
                held, size = [], 0
            held.append(task)
            size += task.file.file_size_in_bytes
        if len(held) > 1:
            yield held


def _rows(table: Table, tasks: list[FileScanTask]) -> Iterator[pa.Table]:
    for task in tasks:
        yield from read(table, task, table.schema())
