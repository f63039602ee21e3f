"""`ottla backup` and `ottla restore`: backups of a cluster in a directory or an object store, and back again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from ottla.cli.command import Command, counted, noun, print_json, print_table, wants_json
from ottla.cli.connect import client_settings, read_properties
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option
from ottla.jobs.progress import ProgressLine
from ottla.kernel.quantities import moment_ms, moment_text

if TYPE_CHECKING:
    from ottla.backup.manifest import Backup
    from ottla.client.aio.cluster import Cluster
    from ottla.mirror.policy import NameFilter
    from ottla.stores import Store

T = TypeVar("T")
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def backup_command(arguments: Sequence[str]) -> int:
    return noun("backup", VERBS, arguments)


def restore_command(arguments: Sequence[str]) -> int:
    return RESTORE.run(arguments)


def _create(given: Given) -> int:
    from ottla.backup.take import take_backup

    keep = given.number("keep")
    if keep is not None and keep < 1:
        raise Misuse("--keep is at least 1: the backup that is taken stays")
    topics = _topics(given)
    with _opened(given) as store, _progress("copied") as tell:
        now_ms = int(time.time() * 1000)
        report = _with_cluster(
            given, lambda cluster: take_backup(cluster, store, topics, now_ms=now_ms, keep=keep, tell=tell)
        )
    backup = report.backup
    for partition, reason in sorted(report.whole.items()):
        sys.stderr.write(f"ottla: {partition} is copied as a whole again: {reason}\n")
    for note in backup.notes:
        sys.stderr.write(f"ottla: {note}\n")
    if wants_json(given):
        print_json({**_row(backup), "new_bytes": report.new_bytes, "removed": report.removed})
        return 0
    sys.stdout.write(
        f"{backup.id}: {counted(len(backup.topics), 'topic')}, {_size(_bytes(backup))}, of which "
        f"{_size(report.new_bytes)} are new\n"
    )
    if report.removed:
        sys.stdout.write(f"removed {', '.join(report.removed)}\n")
    return 0


def _list(given: Given) -> int:
    from ottla.backup.store_files import backup_ids, read_backup

    with _opened(given) as store:
        found = [read_backup(store, each) for each in backup_ids(store)]
    if wants_json(given):
        print_json([_row(each) for each in found])
    elif found:
        print_table(
            ["BACKUP", "TAKEN", "TOPICS", "PARTITIONS", "SIZE"],
            [[each.id, moment_text(each.taken_ms), len(each.topics), len(list(each.partitions())), _size(_bytes(each))]
             for each in found],
        )  # fmt: skip
    else:
        sys.stdout.write(f"no backup in {given.words[0]}\n")
    return 0


def _verify(given: Given) -> int:
    from ottla.backup.verify import verify

    with _opened(given) as store, _progress("read") as tell:
        backup = _chosen(given, store)
        found = verify(store, backup, tell)
    for fault in found.faults:
        sys.stderr.write(f"ottla: {fault}\n")
    if wants_json(given):
        print_json({"id": backup.id, **asdict(found)})
    else:
        sys.stdout.write(
            f"{backup.id}: {counted(found.files, 'file')}, {_size(found.bytes)}, {found.batches} "
            f"{'batch' if found.batches == 1 else 'batches'}, {counted(found.records, 'record')}: "
            f"{counted(len(found.faults), 'fault') if found.faults else 'all sound'}\n"
        )
    return int(bool(found.faults))


def _restore(given: Given) -> int:
    from ottla.backup.restore import WantedRestore, restore_backup

    factor = given.number("replication-factor")
    if factor is not None and factor < 1:
        raise Misuse("--replication-factor is at least 1")
    wanted = WantedRestore(_topics(given), factor, with_acls="without-acls" not in given)
    with _opened(given) as store, _progress("restored") as tell:
        backup = _chosen(given, store)
        report = _with_cluster(given, lambda cluster: restore_backup(cluster, store, backup, wanted, tell=tell))
    for note in report.notes:
        sys.stderr.write(f"ottla: {note}\n")
    if wants_json(given):
        print_json({"id": backup.id, **asdict(report)})
        return 0
    begun = "; an earlier run had begun it" if report.went_on else ""
    sys.stdout.write(
        f"{backup.id}: {counted(report.topics, 'topic')}, {counted(report.records, 'record')} and "
        f"{counted(report.groups, 'group')} restored{begun}\n"
    )
    return 0


def _chosen(given: Given, store: Store) -> Backup:
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
def _opened(given: Given) -> Iterator[Store]:
    """The place's store; what it and the backup refuse are sentences for the user."""
    from ottla.backup.manifest import BackupRefused
    from ottla.stores import LakeRefused, lake_url, open_store

    try:
        yield open_store(lake_url(given.words[0]))
    except (BackupRefused, LakeRefused) as fault:
        raise BadInput(str(fault)) from None


def _topics(given: Given) -> NameFilter:
    from ottla.mirror.policy import NameFilter

    def patterns(name: str, default: str) -> list[str]:
        return [each for each in (given.text(name) or default).split(",") if each]

    try:
        return NameFilter(patterns("topics", ".*"), patterns("topics-exclude", ""))
    except ValueError as fault:
        raise Misuse(str(fault)) from None


def _with_cluster(given: Given, work: Callable[[Cluster], Awaitable[T]]) -> T:
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
def _progress(done: str) -> Iterator[Callable[[int], None]]:
    """A moving line of bytes, on a terminal."""
    began, count = time.monotonic(), 0
    with ProgressLine() as line:

        def tell(more: int) -> None:
            nonlocal count
            count += more
            line.show(f"{_size(count)} {done}, {_size(int(count / max(time.monotonic() - began, 0.001)))}/s")

        yield tell


def _row(backup: Backup) -> dict[str, object]:
    return {
        "id": backup.id,
        "taken_ms": backup.taken_ms,
        "cluster_id": backup.cluster_id,
        "topics": {name: len(topic.partitions) for name, topic in backup.topics.items()},
        "bytes": _bytes(backup),
        "notes": list(backup.notes),
    }


def _bytes(backup: Backup) -> int:
    return sum(file.bytes for file in backup.files())


def _size(count: int) -> str:
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


_TOPICS = (
    Option("topics", "Patterns of topics, commas between. Default: all.", "PATTERNS"),
    Option("topics-exclude", "Patterns of topics that are left out.", "PATTERNS"),
)
_CHOICE = (
    Option("backup", "The backup's id, as `ottla backup list` shows it. Default: the newest.", "ID"),
    Option("at", "The newest backup that was taken at this moment or before: 2026-11-29T10:00Z, -2h.", "TIME"),
)
VERBS: Mapping[str, Command] = {
    "create": Command(
        "ottla backup create PLACE",
        "Take a backup of a running cluster: what is new since the last one in PLACE, all else by its files.\n\n"
        "PLACE is a directory, or s3://, gs://, az://, hdfs://. Batches are copied as they are compressed, through the "
        "Kafka protocol, from ottla or Apache Kafka. All partitions end at one cut: a transaction is in the backup "
        "whole or not at all, and offsets of groups fit it. The manifest comes last, so a run that is killed leaves "
        "the backups before as they are.",
        _create,
        [*_TOPICS, Option("keep", "Of all backups in PLACE keep the newest N, and remove the others.", "N", "Integer")],
        words=(1, 1),
    ),
    "list": Command(
        "ottla backup list PLACE", "Show the backups in PLACE, oldest first.", _list, words=(1, 1), connects=False
    ),
    "verify": Command(
        "ottla backup verify PLACE",
        "Open every file of a backup, and check checksums, CRCs and offsets. The exit status is 1 for a fault.",
        _verify,
        _CHOICE,
        words=(1, 1),
        connects=False,
    ),
}
RESTORE = Command(
    "ottla restore PLACE",
    "Restore a backup into an empty cluster: topics, records, offsets of groups, ACLs, quotas, configurations.\n\n"
    "Topics get new ids, and records new offsets where markers or compacted records left holes; offsets of groups are "
    "translated to the very record. A cluster that is not empty is refused. A restore that was stopped goes on when "
    "it is started again.",
    _restore,
    [
        *_CHOICE,
        *_TOPICS,
        Option("replication-factor", "Replicas of all topics. Default: as many as they had.", "N", "Integer"),
        Option("without-acls", "Leave ACLs out; by default a cluster that knows none is refused."),
    ],
    words=(1, 1),
)
