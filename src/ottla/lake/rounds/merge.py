"""Pieces of groups, put aside by the tasks that read them, become files: one for each group, more where it is big."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from ottla.lake.notes.plans import WrittenFile
from ottla.lake.rounds.files import FileTarget, ParquetFile, Part, pieces
from ottla.stores.base import Store

SMALL_TASK = 32 << 20
"""The rows that one task joins even if other tasks are idle."""


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Groups, each whole, with all their parts."""

    url: str
    target: FileTarget
    parts: tuple[Part, ...]


def merge_tasks(url: str, target: FileTarget, parts: Iterable[Part], tasks: int) -> list[MergeTask]:
    """Share the groups out: about twice as many tasks as run at once, where each has enough to do."""
    ordered = sorted(parts, key=_group)
    total = sum(part.bytes for part in ordered)
    share = max(SMALL_TASK, total // max(1, 2 * tasks))
    shared: list[list[Part]] = []
    size = 0
    for _, group in itertools.groupby(ordered, key=_group):
        whole = list(group)
        if not shared or size >= share:
            shared.append([])
            size = 0
        shared[-1] += whole
        size += sum(part.bytes for part in whole)
    return [MergeTask(url, target, tuple(each)) for each in shared]


def merge_parts(store: Store, target: FileTarget, parts: Iterable[Part]) -> list[WrittenFile]:
    """Write the files of these groups; rows lie in the order of Kafka partition and offset."""
    written: list[WrittenFile] = []
    sources: dict[str, pa.ipc.RecordBatchFileReader] = {}
    for _, group in itertools.groupby(sorted(parts, key=_group), key=_group):
        written += _one_group(store, target, sorted(group, key=lambda part: part.place), sources)
    return written


def _one_group(
    store: Store, target: FileTarget, parts: list[Part], sources: dict[str, pa.ipc.RecordBatchFileReader]
) -> Iterator[WrittenFile]:
    file: ParquetFile | None = None
    try:
        for part in parts:
            for rows in pieces(_rows(store, part, sources), target.target_bytes):
                if file is None:
                    file = ParquetFile(store, target, part.topic, part.values, rows.schema)
                if file.write(rows) >= target.target_bytes:
                    done, file = file, None
                    yield done.finish()
        if file is not None:
            done, file = file, None
            yield done.finish()
    finally:
        if file is not None:
            file.abandon()


def _rows(store: Store, part: Part, sources: dict[str, pa.ipc.RecordBatchFileReader]) -> pa.Table:
    source = sources.get(part.file)
    if source is None:
        source = sources[part.file] = pa.ipc.open_file(store.open_input(part.file))
    return pa.Table.from_batches([source.get_batch(part.batch)])


def _group(part: Part) -> tuple[str, list[tuple[bool, str]]]:
    return part.topic, [(each is not None, each or "") for each in part.values]
