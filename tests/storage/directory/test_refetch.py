"""A closed segment, rebuilt from the leader's bytes, replaces the damaged one completely or not at all."""

from __future__ import annotations

from random import Random

import pytest
from log_desk import T0, a_batch, a_log, put, records_of, reopened, sync, values_of

from ottla.kernel.seams import OpenFile
from ottla.records.batch import Batch
from ottla.records.control import Marker, build_marker
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.storage.directory.refetch import Contradiction, Refetched
from ottla.storage.log import Log
from ottla.storage.segment.aborted import AbortedEntry
from ottla.storage.segment.closed import ClosedSegment, check
from ottla.storage.segment.names import ABORTED_INDEX, FETCHED, LOG
from ottla.storage.segment.walk import Extent
from ottla.storage.values import Appended, Origin

BATCHES = 6


def a_pair() -> tuple[Log, Log]:
    """Equal logs of a leader and a follower, with closed segments of six batches."""
    logs = []
    for _ in range(2):
        size = a_batch(b"value-00", b"x").size
        log = a_log(internal_segment_bytes=BATCHES * size, index_interval_bytes=1)
        for number in range(2 * BATCHES + 2):
            put(log, a_batch(b"value-%02d" % number, b"x"), leader_epoch=3)
        sync(log)
        logs.append(log)
    return logs[0], logs[1]


def damage(log: Log, at: int = 0) -> None:
    """Damage the third batch of a closed segment."""
    segment = log.segments[at]
    size = segment.size // BATCHES
    assert isinstance(log.disk, SimDisk)
    log.disk.flip_bit(segment.path(LOG), 2 * size + 65)
    first = segment.base_offset + 4
    log.damage.note(segment.base_offset, [Extent(first, first + 2, 2 * size, 3 * size)])
    segment.forget_recent()


def sent(leader: Log, offset: int, most: int = 1 << 20) -> bytes:
    read = leader.read(offset, most, limit_offset=leader.end_offset)
    body: bytes = read.data()  # type: ignore[union-attr]
    return body


def fetched(log: Log, leader: Log, at: int = 0, *, most: int = 300, sparse: bool = False) -> Refetched:
    built = Refetched(log, log.segments[at], sparse=sparse)
    while built.wanted is not None:
        built.take(sent(leader, built.wanted, most))
    return built


def put_on_disk(built: Refetched) -> None:
    work = built.begin_sync()
    assert work is not None
    for file in work.files:
        file.sync()
    for directory in work.directories:
        built._log.disk.sync_directory(directory)
    built.end_sync(work, None)
    built.synced().result()


def is_sound(log: Log, at: int = 0) -> bool:
    segment = log.segments[at]
    told = ClosedSegment(segment.path(LOG), segment.base_offset, segment.next_offset, segment.size)
    return not any(isinstance(step, Extent) for step in check(log.disk, told))


def body_of(file: OpenFile) -> bytes:
    return file.read_at(0, file.size())


@pytest.mark.parametrize("at", [0, 1])
def test_what_was_damaged_is_the_leaders_again(at: int) -> None:
    leader, log = a_pair()
    before = values_of(leader)
    damage(log, at)
    assert not is_sound(log, at)
    built = fetched(log, leader, at)
    put_on_disk(built)
    assert built.fits
    built.install()
    log.damage.keep([])
    built.discard()
    assert is_sound(log, at)
    assert body_of(log.segments[at].file) == body_of(leader.segments[at].file)
    assert values_of(log) == before
    assert values_of(reopened(log)) == before
    assert records_of(log, 7, limit=20) == records_of(leader, 7, limit=20), "its indexes are there too"


def test_a_power_cut_at_any_moment_leaves_the_old_segment_or_the_new() -> None:
    """The note of the damage also stays until it is repaired."""
    random = Random(7)
    leader, _ = a_pair()
    operations = 0
    while True:
        _, log = a_pair()
        damage(log)
        assert isinstance(log.disk, SimDisk)
        disk = log.disk
        disk.cut_after = disk.operations + operations
        ended = False
        try:
            built = fetched(log, leader)
            put_on_disk(built)
            built.install()
            log.damage.keep([])
            built.discard()
            ended = True
        except PowerCut:
            pass
        disk.crash(random)
        again = reopened(log, recovery_point=2 * BATCHES * 2)
        assert again.end_offset == leader.end_offset and again.damaged_at is None
        assert is_sound(again) or again.damage, f"after {operations} operations"
        assert not [name for name in disk.list(log.directory) if FETCHED in name]
        if ended:
            break
        operations += 1
    assert operations > 10


def test_bytes_that_are_damaged_there_too_are_not_taken() -> None:
    leader, log = a_pair()
    damage(log)
    built = Refetched(log, log.segments[0], sparse=False)
    body = bytearray(sent(leader, 0))
    body[70] ^= 1
    with pytest.raises(Contradiction, match="fails its CRC"):
        built.take(body)
    built.discard()
    assert not [name for name in log.disk.list(log.directory) if FETCHED in name]
    assert log.damage


@pytest.mark.parametrize("offset", [2, 12])
def test_what_cannot_have_stood_here_is_not_taken(offset: int) -> None:
    """Other offsets than requested, without compaction."""
    leader, log = a_pair()
    built = Refetched(log, log.segments[0], sparse=False)
    with pytest.raises(Contradiction, match="cannot have stood here"):
        built.take(sent(leader, offset))
    with pytest.raises(Contradiction, match="nothing that can be used"):
        built.take(b"")
    with pytest.raises(Contradiction, match="no batch"):
        built.take(bytes(100))


def test_holes_that_compaction_left_are_filled_so_that_recovery_finds_the_segment_whole() -> None:
    leader, log = a_pair()
    damage(log)
    built = Refetched(log, log.segments[0], sparse=True)
    built.take(sent(leader, 2, 80))
    assert built.wanted == 4
    built.take(sent(leader, 12))
    assert built.wanted is None
    put_on_disk(built)
    built.install()
    log.damage.keep([])
    assert is_sound(log)
    assert [record.offset for record in records_of(log, 0, limit=14)] == [2, 3, 12, 13]
    again = reopened(log)  # everything is above the recovery point: the chain of segments is walked
    assert again.end_offset == leader.end_offset
    assert [record.offset for record in records_of(again, 0, limit=14)] == [2, 3, 12, 13]


def test_what_the_leader_has_deleted_need_not_come() -> None:
    leader, log = a_pair()
    damage(log)
    built = Refetched(log, log.segments[0], sparse=False)
    built.skip_to(7)
    while built.wanted is not None:
        built.take(sent(leader, built.wanted))
    put_on_disk(built)
    built.install()
    log.damage.keep([])
    assert records_of(log, 8, limit=12) == records_of(leader, 8, limit=12)
    gone = Refetched(log, log.segments[1], sparse=False)
    gone.skip_to(1000)
    assert gone.wanted is None


def test_a_segment_that_was_compacted_or_deleted_meanwhile_is_not_replaced() -> None:
    leader, log = a_pair()
    built = fetched(log, leader)
    log.delete_records_before(-1)
    log.chain.set(log.segments[1:])
    assert not built.fits


def with_transactions() -> Log:
    """Closed segments in which two producers' transactions begin and end; every other one of each is aborted."""
    log = a_log(internal_segment_bytes=250)
    for number in range(24):
        producer = 1 + number % 2
        batch = a_batch(b"%d" % number, producer_id=producer, sequence=number // 2, transactional=True)
        put(log, batch, leader_epoch=3)
        if number % 4 < 2:  # so that transactions of the two overlap
            continue
        kind = Marker.ABORT if number % 3 else Marker.COMMIT
        marker = build_marker(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=T0)
        assert isinstance(log.append(Batch(marker), leader_epoch=3, wall_ms=T0, origin=Origin.COORDINATOR), Appended)
    log.set_high_watermark(log.end_offset)
    sync(log)
    return log


def aborted_in(log: Log) -> list[list[AbortedEntry]]:
    return [segment.aborted.entries for segment in log.segments]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffixes", [(LOG,), (LOG, ABORTED_INDEX)])
def test_a_segment_that_was_lost_knows_its_aborted_transactions_again(clean: bool, suffixes: tuple[str, ...]) -> None:
    leader = with_transactions()
    closed = len(leader.segments) - 1
    assert closed > 2 and sum(map(len, aborted_in(leader)[:closed])) > 2
    for at in range(closed):
        log = with_transactions()
        end, paths = log.end_offset, [log.segments[at].path(suffix) for suffix in suffixes]
        log.close(clean=clean)
        for path in paths:
            log.disk.remove(path)
        again = reopened(log, clean=clean, recovery_point=end)
        (number,) = [number for number, one in enumerate(again.segments) if one.base_offset == leader.bases[at]]
        put_on_disk(built := fetched(again, leader, number))
        built.install()
        assert aborted_in(again)[number] == aborted_in(leader)[at], at
