"""`ottla backup`: takes backups of a cluster in a directory or an object store, lists and verifies them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ottla.backup.arguments import CHOICE, TOPICS, chosen, opened, progress, shown_size, topics_of, with_cluster
from ottla.cli.command import Command, counted, noun, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.kernel.quantities import moment_text

if TYPE_CHECKING:
    from ottla.backup.manifest import Backup


def command(arguments: Sequence[str]) -> int:
    return noun("backup", VERBS, arguments)


def _create(given: Given) -> int:
    from ottla.backup.take import take_backup

    keep = given.number("keep")
    if keep is not None and keep < 1:
        raise Misuse("--keep is at least 1: the backup that is taken stays")
    topics = topics_of(given)
    with opened(given) as store, progress("copied") as tell:
        now_ms = int(time.time() * 1000)
        report = with_cluster(
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
        f"{backup.id}: {counted(len(backup.topics), 'topic')}, {shown_size(_bytes(backup))}, of which "
        f"{shown_size(report.new_bytes)} are new\n"
    )
    if report.removed:
        sys.stdout.write(f"removed {', '.join(report.removed)}\n")
    return 0


def _list(given: Given) -> int:
    from ottla.backup.store_files import backup_ids, read_backup

    with opened(given) as store:
        found = [read_backup(store, each) for each in backup_ids(store)]
    if wants_json(given):
        print_json([_row(each) for each in found])
    elif found:
        titles = ["BACKUP", "TAKEN", "TOPICS", "PARTITIONS", "SIZE"]
        print_table(titles, [[each.id, moment_text(each.taken_ms), *_counts(each)] for each in found])
    else:
        sys.stdout.write(f"no backup in {given.words[0]}\n")
    return 0


def _verify(given: Given) -> int:
    from ottla.backup.verify import verify

    with opened(given) as store, progress("read") as tell:
        backup = chosen(given, store)
        found = verify(store, backup, tell)
    for fault in found.faults:
        sys.stderr.write(f"ottla: {fault}\n")
    if wants_json(given):
        print_json({"id": backup.id, **asdict(found)})
    else:
        sys.stdout.write(
            f"{backup.id}: {counted(found.files, 'file')}, {shown_size(found.bytes)}, {found.batches} "
            f"{'batch' if found.batches == 1 else 'batches'}, {counted(found.records, 'record')}: "
            f"{counted(len(found.faults), 'fault') if found.faults else 'all sound'}\n"
        )
    return int(bool(found.faults))


def _row(backup: Backup) -> dict[str, object]:
    return {
        "id": backup.id,
        "taken_ms": backup.taken_ms,
        "cluster_id": backup.cluster_id,
        "topics": {name: len(topic.partitions) for name, topic in backup.topics.items()},
        "bytes": _bytes(backup),
        "notes": list(backup.notes),
    }


def _counts(backup: Backup) -> tuple[int, int, str]:
    return len(backup.topics), len(list(backup.partitions())), shown_size(_bytes(backup))


def _bytes(backup: Backup) -> int:
    return sum(file.bytes for file in backup.files())


VERBS: Mapping[str, Command] = {
    "create": Command(
        "ottla backup create PLACE",
        "Take a backup of a running cluster: what is new since the last one in PLACE, all else by its files.\n\n"
        "PLACE is a directory, or s3://, gs://, az://, hdfs://. Batches are copied as they are compressed, through the "
        "Kafka protocol, from ottla or Apache Kafka. All partitions end at one cut: a transaction is in the backup "
        "whole or not at all, and offsets of groups fit it. The manifest comes last, so a run that is killed leaves "
        "the backups before as they are.",
        _create,
        [*TOPICS, Option("keep", "Of all backups in PLACE keep the newest N, and remove the others.", "N", "Integer")],
        words=(1, 1),
    ),
    "list": Command(
        "ottla backup list PLACE", "Show the backups in PLACE, oldest first.", _list, words=(1, 1), connects=False
    ),
    "verify": Command(
        "ottla backup verify PLACE",
        "Open every file of a backup, and check checksums, CRCs and offsets. The exit status is 1 for a fault.",
        _verify,
        CHOICE,
        words=(1, 1),
        connects=False,
    ),
}
