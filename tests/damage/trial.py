"""Runs one case: copies the known set, damages one file, starts, reads and writes, stops, and returns all it saw."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.damage import harms
from tests.damage.brokers import Brokers, until
from tests.damage.cases import bit_of
from tests.damage.judges import is_all_said
from tests.damage.kinds import KINDS, Concerns, broker_of, is_scrubbed, partition_of
from tests.damage.reading import PATIENCE_S, SETTINGS, differing, see
from tests.damage.story import COMPACTED, Template, copy_tree
from tests.damage.tools import doctor, log_check
from tests.damage.values import (
    ALONE,
    FIRST,
    LAST,
    OFFSETS_TOPIC,
    ONE,
    PROBE,
    TRANSACTIONS_TOPIC,
    Case,
    Outcome,
    Probe,
    Start,
    Told,
    Written,
)

from ottla.client.admin.replicas import Election
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.reader import Record

WHOLE_WITHIN_S = 20
LEADS_WITHIN_S = 10
SAYS_WITHIN_S = 30
_COMPACTED = {COMPACTED, TopicPartition(OFFSETS_TOPIC, 0), TopicPartition(TRANSACTIONS_TOPIC, 0)}
_PASSES = 2
_HEADING_LINES = 2
"""Lines at the head of a checkpoint: its version, and its number of entries."""
ALONE_S = 5
"""The patience with a single broker: once ready it leads everything, and only a scrub takes time."""
_FAILED = (ApiError, ClientError)


def run(template: Template, case: Case, place: Path, seed: int, *, second_reader: bool) -> Outcome:
    """Run one case in the folder `place`."""
    began = time.monotonic()
    root = place / "root"
    brokers = Brokers(root, template.count, scrubs=is_scrubbed(case.kind) or case.kind.startswith("scrub"))
    path = root / case.path
    before = _damage(template, case, brokers, seed)
    outcome = Outcome(checked=_checked(case, root))
    try:
        _start(case, template, brokers, outcome)
        if Start.READY in outcome.starts.values():
            _look(template, brokers, outcome, second_reader=second_reader)
            _hear(case, template, brokers, outcome)
            outcome.doctored = doctor(brokers.bootstrap)
            outcome.fell = [number for number in _ready(outcome) if not brokers.of[number].running]
            outcome.stops = brokers.stop()
    finally:
        brokers.kill()
    outcome.lines = brokers.lines()
    outcome.changed = list(_changed(template, case, root))
    outcome.restored = path.is_file() and path.read_bytes() == before
    outcome.took_s = time.monotonic() - began
    return outcome


def check(template: Template, case: Case, place: Path, seed: int) -> Outcome:
    """Run `ottla log check` on one case, and nothing else."""
    began = time.monotonic()
    _damage(template, case, Brokers(place / "root", template.count), seed)
    return Outcome(checked=_checked(case, place / "root"), took_s=time.monotonic() - began)


def _damage(template: Template, case: Case, brokers: Brokers, seed: int) -> bytes:
    """Copy the known set and damage one file of it; return the file's content before."""
    copy_tree(template.root, brokers.folder)
    brokers.give_ports()
    path = brokers.folder / case.path
    before = path.read_bytes() if path.is_file() else b""
    harms.do(
        case.harm,
        path,
        Random(f"{seed} {case.name}"),
        older=template.older_than(case.path),
        bit=bit_of(case, before, seed),
    )
    if case.kind == "log directory" and case.harm == "older":
        brokers.give_ports()  # the copy names the same port as all copies
    return before


def _checked(case: Case, root: Path) -> Told | None:
    """The result of `ottla log check`; None if the store is damaged, which is no log directory."""
    damaged = broker_of(case.path)
    if damaged is None or KINDS[case.kind].concerns is Concerns.STORE:
        return None
    return log_check(root / f"broker-{damaged}")


def _ready(outcome: Outcome) -> list[int]:
    return [number for number, start in outcome.starts.items() if start is Start.READY]


def _start(case: Case, template: Template, brokers: Brokers, outcome: Outcome) -> None:
    damaged = broker_of(case.path)
    if case.setting == ONE or damaged is None:
        outcome.starts = brokers.start()
        return
    others = [number for number in brokers.of if number != damaged]
    if case.setting == LAST:
        outcome.starts |= brokers.start(*others)
        _wait_for_leaders(brokers, template)
        outcome.starts |= brokers.start(damaged)
        return
    assert case.setting in (FIRST, ALONE)
    outcome.starts |= brokers.start(damaged)
    if case.setting == ALONE and outcome.starts[damaged] is Start.READY:
        outcome.views.append(see(brokers.bootstrap, template.known, "alone", final=False))
    outcome.starts |= brokers.start(*others)


def _look(template: Template, brokers: Brokers, outcome: Outcome, *, second_reader: bool) -> None:
    """Read, write, and read again from each leader."""
    known, count = template.known, template.count
    with Cluster(brokers.bootstrap, settings=SETTINGS) as cluster:
        if count > 1 and len(_ready(outcome)) == count:
            outcome.out_of_sync = _wait_until_whole(cluster, template)
        outcome.views.append(
            see(brokers.bootstrap, known, "all started", patience_s=PATIENCE_S if count > 1 else ALONE_S)
        )
        if second_reader:
            outcome.differing = differing(brokers.bootstrap, outcome.views[-1])
        outcome.probes = list(_probes(cluster, known.logs))
        for turn in range(1, count):
            _move_leaders(cluster, known.logs)
            outcome.views.append(see(brokers.bootstrap, known, f"leaders moved, turn {turn}"))


def _hear(case: Case, template: Template, brokers: Brokers, outcome: Outcome) -> None:
    """Give the brokers time to log what they must: if a scrub may find the damage, until a whole pass has ended.

    The first pass that ends may have begun before the start, and have resumed after the damaged segment.
    """
    checkpoint = Path(f"broker-{broker_of(case.path) or 1}", "scrub-offset-checkpoint")
    ignored = {0, _pass_ended_ns(template.root / checkpoint)}
    ends: set[int] = set()
    found_by_scrub = is_scrubbed(case.kind)

    def all_said() -> bool:
        outcome.lines = brokers.lines()
        ends.add(_pass_ended_ns(brokers.folder / checkpoint))
        return is_all_said(case, template.known, outcome) or not found_by_scrub or len(ends - ignored) >= _PASSES

    until(all_said, SAYS_WITHIN_S, step_s=0.1)
    outcome.lines = brokers.lines()


def _pass_ended_ns(path: Path) -> int:
    """The time at which the last pass of the scrub ended; 0 during a pass or before the first."""
    try:
        has_entries = len(path.read_text().splitlines()) > _HEADING_LINES
        return 0 if has_entries else path.stat().st_mtime_ns
    except OSError:
        return 0


def _wait_for_leaders(brokers: Brokers, template: Template) -> None:
    with Cluster(brokers.bootstrap, settings=SETTINGS) as cluster:
        until(lambda: all(leader >= 0 for leader in _leaders(cluster, template).values()), LEADS_WITHIN_S)


def _leaders(cluster: Cluster, template: Template) -> dict[TopicPartition, int]:
    found = dict.fromkeys(template.known.logs, -1)
    with suppress(*_FAILED):
        for name, topic in cluster.topics().items():
            found |= {TopicPartition(name, index): part.leader for index, part in topic.partitions.items()}
    return found


def _wait_until_whole(cluster: Cluster, template: Template) -> list[TopicPartition]:
    """Wait until all replicas are in sync; return the partitions for which that took too long."""
    behind: list[TopicPartition] = list(template.known.logs)

    def whole() -> bool:
        with suppress(*_FAILED):
            topics = cluster.topics()
            behind[:] = [
                log
                for log in template.known.logs
                if log.topic not in topics
                or (part := topics[log.topic].partitions.get(log.partition)) is None
                or len(part.isr) < template.count
            ]
        return not behind

    until(whole, WHOLE_WITHIN_S)
    return behind


def _probes(cluster: Cluster, logs: Mapping[TopicPartition, Written]) -> Iterator[Probe]:
    """Send the last batch of each producer again, and one new record to each partition."""
    new = build_batch([Record(0, PROBE.timestamp, PROBE.key, PROBE.value)])
    for log, written in logs.items():
        if log.topic == OFFSETS_TOPIC:
            continue
        repeats = [(True, written.last_batch)] if written.last_batch else []
        for again, batch in (*repeats, (False, new)):
            try:
                produced = cluster.produce(log.topic, log.partition, batch, delivery_timeout_ms=3000)
            except _FAILED as fault:
                yield Probe(log, -1, str(fault), again)
            else:
                yield Probe(log, produced.base_offset, "", again)


def _move_leaders(cluster: Cluster, logs: Mapping[TopicPartition, Written]) -> None:
    """Move each partition's leadership to the next broker, if that is in sync."""
    admin = Admin(cluster=cluster)
    with suppress(*_FAILED):
        topics = cluster.topics()
        wanted: dict[TopicPartition, tuple[int, ...]] = {}
        for log in logs:
            part = topics[log.topic].partitions[log.partition]
            replicas = sorted(part.replicas)
            at = (replicas.index(part.leader) + 1) % len(replicas) if part.leader in replicas else 0
            wanted[log] = (*replicas[at:], *replicas[:at])
        admin.alter_reassignments(wanted)
        admin.elect_leaders(Election.PREFERRED, list(wanted))

        def moved() -> bool:
            now = cluster.topics()
            parts = [(now[log.topic].partitions[log.partition], replicas) for log, replicas in wanted.items()]
            return all(part.leader == replicas[0] or replicas[0] not in part.isr for part, replicas in parts)

        until(moved, LEADS_WITHIN_S)


def _changed(template: Template, case: Case, root: Path) -> Iterator[str]:
    """Segments of undamaged replicas that lost bytes. Compaction may change those of compacted topics."""
    for path in template.root.rglob("*.log"):
        name = path.relative_to(template.root).as_posix()
        partition = partition_of(name)
        if partition is None or partition in _COMPACTED or _is_damaged(case, name):
            continue
        now = root / name
        if not now.is_file():
            yield f"{name} is gone"
        elif not now.read_bytes().startswith(path.read_bytes()):
            yield f"{name} has other bytes"


def _is_damaged(case: Case, name: str) -> bool:
    """True if a segment may have other bytes because of the damage: in the damaged replica, or in any replica of the
    damaged broker if other brokers hold everything."""
    if broker_of(name) != broker_of(case.path):
        return False
    if KINDS[case.kind].concerns is Concerns.PARTITION:
        return partition_of(name) == partition_of(case.path)
    return case.setting != ONE


def clean_up(place: Path) -> None:
    """Remove a case's files, also unreadable ones."""
    for path in place.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)
