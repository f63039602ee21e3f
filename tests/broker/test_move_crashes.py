"""A replica that moves between log directories survives a crash at every operation, in every state it may leave.

Synced records are there afterwards, in one directory, and retries of their producers are recognized.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from log_desk import DAY_MS, T0, TOPIC_ID, a_batch, config, records_of, sync

from ottla.broker.replicas.log_directories import LogDirectories
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.storage.directory import moving
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FUTURE_SUFFIX
from ottla.storage.log import Log
from ottla.storage.values import Appended

PATHS = ("/a", "/b")
PLACE = TopicPartition("t", 0)
OPTIONS: dict[str, object] = {"internal_segment_bytes": 200, "index_interval_bytes": 0}


def directories_on(disk: SimDisk) -> LogDirectories:
    """Open the log directories as a start does."""
    state = SimpleNamespace(partition=0, replicas=(1,), in_sync=(1,), eligible=())
    topic = SimpleNamespace(topic_id=TOPIC_ID, name="t", partitions=[state])
    around: Any = SimpleNamespace(
        broker=1,
        metadata=SimpleNamespace(topics={TOPIC_ID: topic}, topic={"t": topic}.get, brokers={}, version=1),
        follow=SimpleNamespace(incarnation=bytes(16), entry_crc=lambda: None),
        clock=SimpleNamespace(wall_ms=lambda: T0),
        config=SimpleNamespace(producer_id_expiration_ms=DAY_MS),
        options=SimpleNamespace(topic_config=lambda topic: config(**OPTIONS)),
    )
    found = LogDirectories(around, disk, PATHS, needed=None)
    identities = iter(("A" * 22, "B" * 22))
    found.open("cluster", lambda: next(identities), None)
    return found


class Desk:
    """One replica in /a, and the offsets that were promised for it."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.directories = directories_on(disk)
        self.a, self.b = self.directories.online
        self.log = self.a.create_log(
            "t",
            0,
            TOPIC_ID,
            config=config(**OPTIONS),
            wall_ms=T0,
            producer_expiration_ms=DAY_MS,
            on_synced=lambda _: None,
        )
        self.future: Log
        self.promised = 0
        self.promised_start = 0

    def append(self, epoch: int = 0) -> None:
        at = self.log.end_offset
        batch = a_batch(b"value %d" % at, producer_id=1, sequence=at)
        assert isinstance(self.log.append(batch, leader_epoch=epoch, wall_ms=T0), Appended)

    def sync(self) -> None:
        sync(self.log)
        self.promised = self.log.synced_offset

    def delete_before(self, offset: int, home: LogDirectory) -> None:
        self.log.set_high_watermark(self.log.synced_offset)
        assert self.log.delete_records_before(offset) == offset
        home.checkpoint_log_starts()
        self.promised_start = offset

    def copy(self, max_bytes: int = 100) -> None:
        copied = 1
        while copied:
            outcome = moving.copy_some(self.log, self.future, max_bytes, wall_ms=T0)
            assert not isinstance(outcome, ErrorCode)
            copied = outcome

    def swap(self) -> None:
        old, new = self.log, self.future
        moving.prepare(old, self.a, new, self.b)
        moving.move_in(old, new, self.b)
        self.log = new
        moving.move_out(old, self.a)
        moving.unmark(new)


def a_move(desk: Desk) -> None:
    """Run a move, from the first record to appends after the swap."""
    for _ in range(3):
        desk.append()
    desk.sync()
    desk.future = moving.begin(desk.log, desk.b, "0" * 32, wall_ms=T0)
    moving.copy_some(desk.log, desk.future, 100, wall_ms=T0)
    desk.log.begin_epoch(2)
    desk.append(epoch=2)
    desk.sync()
    desk.delete_before(1, desk.a)
    desk.copy()
    desk.append(epoch=2)
    desk.sync()
    desk.copy()
    desk.swap()
    desk.append(epoch=2)
    desk.sync()
    desk.b.checkpoint_recovery_points()
    desk.delete_before(2, desk.b)


def check(disk: SimDisk, promised: int, promised_start: int, *, epoch: int = 2) -> tuple[str, bool]:
    """Start on a disk and check the log; return the replica's directory, and whether it was moving."""
    directories = directories_on(disk)
    (opened,) = directories.recovered.values()
    assert [path for path in PATHS if disk.exists(f"{path}/t-0")] == [posixpath.dirname(opened.directory)]
    assert opened.damaged_at is None
    assert opened.end_offset >= promised
    assert promised_start <= opened.log_start_offset <= 2
    values = [record.value for record in records_of(opened)]
    assert values == [b"value %d" % at for at in range(opened.log_start_offset, opened.end_offset)]
    for at in range(2, opened.end_offset):
        assert opened.epochs.epoch_at(at) == (0 if at < 3 else epoch)
    for at in range(max(0, opened.end_offset - 5), opened.end_offset):
        again = opened.append(
            a_batch(b"value %d" % at, producer_id=1, sequence=at), leader_epoch=opened.latest_epoch, wall_ms=T0
        )
        assert isinstance(again, Appended) and again.duplicate and again.base_offset == at
    assert not disk.exists(f"{opened.directory}/moving")
    return posixpath.dirname(opened.directory), bool(directories.broken_off)


def crashes(work: Callable[[Desk], None], every: int = 1) -> Iterator[tuple[Desk, bool]]:
    """(the desk at each operation of some work, whether the work had ended)."""
    cut = 0
    while True:
        disk = SimDisk()
        desk = Desk(disk)
        disk.cut_after = disk.operations + cut
        try:
            work(desk)
            ended = True
        except PowerCut:
            ended = False
        disk.cut_after = None
        yield desk, ended
        if ended:
            return
        cut += every


def test_every_legal_state_that_a_crash_leaves_of_a_move_keeps_what_was_synced():
    seen: set[tuple[str, bool]] = set()
    states = twice = 0
    random = Random(1)
    for desk, _ in crashes(a_move):
        promised, start = desk.promised, desk.promised_start
        for state in some_states(desk.disk, random):
            states += 1
            twice += all(state.exists(f"{path}/t-0") for path in PATHS)
            seen.add(check(state, promised, start))
    assert seen == {("/a", False), ("/a", True), ("/b", False)}
    assert states > 500
    assert twice


def some_states(disk: SimDisk, random: Random) -> Iterator[SimDisk]:
    """All legal states if they are few, else a random sample."""
    try:
        yield from disk.legal_states(limit=40)
    except ValueError:
        for _ in range(6):
            state = deepcopy(disk)
            state.crash(random)
            yield state


def test_a_crash_while_a_start_settles_a_move_is_settled_by_the_next():
    random = Random(2)
    restarts = 0
    for desk, _ in crashes(a_move):
        disk = desk.disk
        disk.crash(random)
        disk.cut_after = disk.operations + random.randrange(40)
        try:
            directories_on(disk)
        except PowerCut:
            restarts += 1
        disk.cut_after = None
        disk.crash(random)
        check(disk, desk.promised, desk.promised_start)
    assert restarts > 50


@pytest.mark.parametrize("epoch", [0, 2])
@pytest.mark.parametrize("served", ["/a", "/b"])
def test_of_two_the_one_that_was_served_since_stays(served: str, epoch: int):
    """A directory fails in the middle of the swap, and comes back after the other was served alone."""
    disk = SimDisk()
    desk = Desk(disk)
    for _ in range(3):
        desk.append()
    desk.sync()
    desk.future = moving.begin(desk.log, desk.b, "0" * 32, wall_ms=T0)
    desk.copy()
    moving.prepare(desk.log, desk.a, desk.future, desk.b)
    moving.move_in(desk.log, desk.future, desk.b)
    if served == "/b":
        desk.log = desk.future
    moving.unmark(desk.log)
    desk.append(epoch)
    desk.sync()
    disk.lose_unsynced()
    assert check(disk, 4, 0, epoch=epoch)[0] == served
    assert not [name for path in PATHS for name in disk.list(path) if name.endswith(FUTURE_SUFFIX)]


def test_of_two_that_are_alike_the_one_that_was_to_be_stays():
    disk = SimDisk()
    desk = Desk(disk)
    desk.append()
    desk.sync()
    desk.future = moving.begin(desk.log, desk.b, "0" * 32, wall_ms=T0)
    desk.copy()
    moving.prepare(desk.log, desk.a, desk.future, desk.b)
    moving.move_in(desk.log, desk.future, desk.b)
    disk.lose_unsynced()
    assert check(disk, 1, 0)[0] == "/b"


def test_one_that_has_begun_again_behind_the_others_end_is_newer():
    disk = SimDisk()
    desk = Desk(disk)
    desk.append(epoch=5)
    desk.sync()
    desk.future = moving.begin(desk.log, desk.b, "0" * 32, wall_ms=T0)
    desk.copy()
    desk.log.truncate_fully_to(7, wall_ms=T0)
    assert moving.is_newer(desk.log, desk.future)
    assert not moving.is_newer(desk.future, desk.log)
