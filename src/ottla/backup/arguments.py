"""Arguments that `ottla backup` and `ottla restore` share: the place, the topics, the cluster, the backup."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ottla.cli.connect import client_settings, read_properties
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option
from ottla.jobs.progress import ProgressLine
from ottla.kernel.quantities import moment_ms

if TYPE_CHECKING:
    from ottla.backup.manifest import Backup
    from ottla.client.aio.cluster import Cluster
    from ottla.mirror.policy import NameFilter
    from ottla.stores import Store

T = TypeVar("T")
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TOPICS = (
    Option("topics", "Patterns of topics, commas between. Default: all.", "PATTERNS"),
    Option("topics-exclude", "Patterns of topics that are left out.", "PATTERNS"),
)
CHOICE = (
    Option("backup", "The backup's id, as `ottla backup list` shows it. Default: the newest.", "ID"),
    Option("at", "The newest backup that was taken at this moment or before: 2026-11-29T10:00Z, -2h.", "TIME"),
)


def chosen(given: Given, store: Store) -> Backup:
    """The backup that is named, or the newest one, or the newest one at a moment."""
    from ottla.backup.store_files import backup_ids, read_backup

    if "backup" in given and "at" in given:
        raise Misuse("give --backup or --at, not both")
    if "backup" in given:
        return read_backup(store, given.need("backup"))
    ids = backup_ids(store)
    if not ids:
        raise BadInput(f"{given.words[0]} holds no backup; `ottla backup create {given.words[0]}` takes one")
    if "at" not in given:
        return read_backup(store, ids[-1])
    try:
        at_ms = moment_ms(given.need("at"), int(time.time() * 1000))
    except ValueError as fault:
        raise Misuse(f"--at {fault}") from None
    for each in reversed(ids):
        backup = read_backup(store, each)
        if backup.taken_ms <= at_ms:
            return backup
    raise BadInput(f"no backup is that old: the first one is {ids[0]}")


@contextmanager
def opened(given: Given) -> Iterator[Store]:
    """The place's store; what it and the backup refuse are sentences for the user."""
    from ottla.backup.manifest import BackupRefused
    from ottla.stores import LakeRefused, lake_url, open_store

    try:
        yield open_store(lake_url(given.words[0]))
    except (BackupRefused, LakeRefused) as fault:
        raise BadInput(str(fault)) from None


def topics_of(given: Given) -> NameFilter:
    from ottla.mirror.policy import NameFilter

    def patterns(name: str, default: str) -> list[str]:
        return [each for each in (given.text(name) or default).split(",") if each]

    try:
        return NameFilter(patterns("topics", ".*"), patterns("topics-exclude", ""))
    except ValueError as fault:
        raise Misuse(str(fault)) from None


def with_cluster(given: Given, work: Callable[[Cluster], Awaitable[T]]) -> T:
    from ottla.client.aio.cluster import Cluster

    path = given.text("command-config")
    settings = client_settings(read_properties(path) if path else {})

    async def run() -> T:
        async with Cluster(given.need("bootstrap-server"), settings=settings) as cluster:
            return await work(cluster)

    try:
        return asyncio.run(run())
    except ValueError as fault:
        if str(fault).startswith(("invalid bootstrap", "no bootstrap")):
            raise Misuse(str(fault)) from None
        raise


@contextmanager
def progress(done: str) -> Iterator[Callable[[int], None]]:
    """A moving line of bytes, on a terminal."""
    began, count = time.monotonic(), 0
    with ProgressLine() as line:

        def tell(more: int) -> None:
            nonlocal count
            count += more
            line.show(f"{shown_size(count)} {done}, {shown_size(int(count / max(time.monotonic() - began, 0.001)))}/s")

        yield tell


def shown_size(count: int) -> str:
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
