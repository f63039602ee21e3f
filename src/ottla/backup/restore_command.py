"""`ottla restore`: puts a backup into an empty cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from ottla.backup.arguments import CHOICE, TOPICS, chosen, opened, progress, topics_of, with_cluster
from ottla.cli.command import Command, counted, print_json, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _restore(given: Given) -> int:
    from ottla.backup.restore import WantedRestore, restore_backup

    factor = given.number("replication-factor")
    if factor is not None and factor < 1:
        raise Misuse("--replication-factor is at least 1")
    wanted = WantedRestore(topics_of(given), factor, with_acls="without-acls" not in given)
    with opened(given) as store, progress("restored") as tell:
        backup = chosen(given, store)
        report = with_cluster(given, lambda cluster: restore_backup(cluster, store, backup, wanted, tell=tell))
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


COMMAND = Command(
    "ottla restore PLACE",
    "Restore a backup into an empty cluster: topics, records, offsets of groups, ACLs, quotas, configurations.\n\n"
    "Topics get new ids, and records new offsets where markers or compacted records left holes; offsets of groups are "
    "translated to the very record. A cluster that is not empty is refused. A restore that was stopped goes on when "
    "it is started again.",
    _restore,
    [
        *CHOICE,
        *TOPICS,
        Option("replication-factor", "Replicas of all topics. Default: as many as they had.", "N", "Integer"),
        Option("without-acls", "Leave ACLs out; by default a cluster that knows none is refused."),
    ],
    words=(1, 1),
)
