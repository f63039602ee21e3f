"""A start finds transaction indexes that were lost or changed, and takes the aborted transactions from the batches."""

from __future__ import annotations

import errno

import pytest
from log_desk import T0, a_batch, a_directory, new_log, only_log, sync

from ottla.records.batch import Batch
from ottla.records.control import Marker, build_marker
from ottla.sim.disk import SimDisk
from ottla.storage.checkpoint import ABORTED
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import Log
from ottla.storage.maintenance.index_scrub import RebuiltIndexes
from ottla.storage.maintenance.scrub import ScrubFinding, check_all, decode_segments, encode_segments
from ottla.storage.producers.producers import Guard
from ottla.storage.segment.aborted import ENTRY, seal_of
from ottla.storage.segment.closed import ClosedSegment
from ottla.storage.segment.names import ABORTED_INDEX, LOG
from ottla.storage.values import Appended, LogRead, Origin

PATH, NOTE = "/data/t-0", f"/data/t-0/{ABORTED}"
SMALL = {"internal_segment_bytes": 2000, "index_interval_bytes": 200}
CLEAN, KILL = "clean", "kill"
TRANSACTIONS = 30
HARMS = ["removed", "bit", "garbage", "halved", "emptied"]
INDEX_HARMS = [*HARMS, "foreign", "longer", "ragged"]


def transact(log: Log, number: int, producers: tuple[int, int] = (7, 8)) -> None:
    """Two batches and a marker of each producer; each third transaction is aborted, and the two overlap."""
    for producer in producers:
        guard = log.producers.guard(producer, 0, 2 * number, bumps=False, now_ms=T0)
        for half in (0, 1):
            batch = a_batch(b"x", producer_id=producer, sequence=2 * number + half, transactional=True)
            written = log.append(batch, leader_epoch=0, wall_ms=T0, guard=guard if isinstance(guard, Guard) else None)
            assert isinstance(written, Appended)
    for producer in reversed(producers):
        kind = Marker.COMMIT if number % 3 else Marker.ABORT
        marker = build_marker(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=T0)
        assert isinstance(log.append(Batch(marker), leader_epoch=0, wall_ms=T0, origin=Origin.COORDINATOR), Appended)
    log.set_high_watermark(log.end_offset)


def stopped(stop: str, disk: SimDisk) -> Log:
    directory = a_directory(disk)
    log = new_log(directory, **SMALL)
    for number in range(TRANSACTIONS):
        transact(log, number)
        sync(log)
    assert log.move_recovery_point()
    sync(log)
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks()
    if stop == CLEAN:
        directory.close(clean=True)
    return log


def opened(disk: SimDisk) -> tuple[LogDirectory, Log]:
    directory = a_directory(disk)
    return directory, only_log(directory, **SMALL)


def aborted(log: Log) -> list[tuple[tuple[int, int], ...]]:
    """Transactions that a reader of committed records is told to leave out, at each offset."""
    found = []
    for offset in range(log.log_start_offset, log.end_offset):
        read = log.read(offset, 1, limit_offset=log.end_offset, with_aborted=True)
        assert isinstance(read, LogRead)
        found.append(tuple((one.producer_id, one.first_offset) for one in read.aborted or ()))
    return found


def indexes(disk: SimDisk) -> dict[str, bytes]:
    return {name: disk.read(f"{PATH}/{name}") for name in disk.list(PATH) if name.endswith(ABORTED_INDEX)}


def overwrite(disk: SimDisk, path: str, body: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.write_at(0, [body])
    file.release()


def harm(disk: SimDisk, path: str, how: str) -> None:
    body = bytearray(disk.read(path))
    if how == "removed":
        disk.remove(path)
        return
    if how == "bit":
        body[len(body) - ENTRY.size + 17] ^= 1  # in the first offset of the last entry
    elif how == "garbage":
        body[:] = bytes((at * 37 + 11) % 251 for at in range(len(body)))
    elif how == "foreign":
        body[:] = ENTRY.pack(0, 7, 0, 1, 2) * (len(body) // ENTRY.size)
    elif how == "longer":
        body += ENTRY.pack(0, 7, 0, 1 << 40, 1 << 40)
    elif how == "ragged":
        body += bytes(5)
    overwrite(disk, path, bytes(body[: {"halved": len(body) // 2, "emptied": 0}.get(how, len(body))]))


@pytest.mark.parametrize("stop", [CLEAN, KILL])
def test_a_sound_log_is_opened_without_reading_its_markers_or_a_word(stop: str) -> None:
    disk = SimDisk()
    log = stopped(stop, disk)
    before, files = aborted(log), indexes(disk)
    assert len(log.segments) > 3 and len(files) > 2 and disk.exists(NOTE)
    assert sum(map(bool, before)) > TRANSACTIONS // 3
    _, again = opened(disk)
    assert (again.recovered.remarks, indexes(disk), aborted(again)) == ((), files, before)
    if stop == CLEAN:
        assert again.recovered.replayed_batches == 0


@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("how", INDEX_HARMS)
def test_a_harmed_index_is_built_anew_and_said_once(how: str, stop: str) -> None:
    disk = SimDisk()
    log = stopped(stop, disk)
    before, files = aborted(log), indexes(disk)
    kept = disk.copied("/data")
    for name in files:
        disk.put_back("/data", kept)
        harm(disk, f"{PATH}/{name}", how)
        _, again = opened(disk)
        assert aborted(again) == before, name
        (remark,) = again.recovered.remarks
        assert name in remark.what and "built anew" in remark.what
        again.close(clean=False)
        assert indexes(disk) == files
        assert opened(disk)[1].recovered.remarks == ()


@pytest.mark.parametrize("stop", [CLEAN, KILL])
def test_all_indexes_at_once_are_one_warning(stop: str) -> None:
    disk = SimDisk()
    log = stopped(stop, disk)
    before, files = aborted(log), indexes(disk)
    for name in files:
        disk.remove(f"{PATH}/{name}")
    _, again = opened(disk)
    (remark,) = again.recovered.remarks
    assert f"{len(files) - 1} more segments" in remark.what
    assert aborted(again) == before


def test_every_flipped_bit_of_an_index_is_seen_after_a_clean_stop() -> None:
    disk = SimDisk()
    log = stopped(CLEAN, disk)
    before, files = aborted(log), indexes(disk)
    name = sorted(files)[1]
    kept = disk.copied("/data")
    for bit in range(8 * len(files[name])):
        disk.put_back("/data", kept)
        body = bytearray(files[name])
        body[bit // 8] ^= 1 << bit % 8
        overwrite(disk, f"{PATH}/{name}", bytes(body))
        _, again = opened(disk)
        assert len(again.recovered.remarks) == 1, bit
        assert again.chain.segments[1].aborted.entries == log.chain.segments[1].aborted.entries
    assert aborted(again) == before


@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("how", HARMS)
def test_a_harmed_note_costs_a_look_at_the_batches_and_no_word(how: str, stop: str) -> None:
    disk = SimDisk()
    log = stopped(stop, disk)
    before, files, note = aborted(log), indexes(disk), disk.read(NOTE)
    harm(disk, NOTE, how)
    _, again = opened(disk)
    assert (again.recovered.remarks, aborted(again), indexes(disk)) == ((), before, files)
    assert disk.read(NOTE) == note or stop == KILL
    assert disk.exists(NOTE)


def test_a_file_of_apache_kafka_without_a_note_is_compared_with_the_batches() -> None:
    disk = SimDisk()
    log = stopped(CLEAN, disk)
    before, name = aborted(log), sorted(indexes(disk))[1]
    disk.remove(NOTE)
    harm(disk, f"{PATH}/{name}", "bit")
    _, again = opened(disk)
    assert name in again.recovered.remarks[0].what
    assert aborted(again) == before


def test_a_note_from_before_a_truncation_does_not_vouch_for_what_came_in_its_place() -> None:
    disk = SimDisk()
    stopped(CLEAN, disk)
    directory, log = opened(disk)
    log.truncate_to(log.segments[2].base_offset + 3)
    for number in range(3):
        transact(log, number, (17, 18))
    assert log.move_recovery_point()
    sync(log)
    directory.checkpoint_recovery_points()
    before, kept = aborted(log), disk.copied("/data")
    _, again = opened(disk)
    assert (again.recovered.remarks, aborted(again)) == ((), before)
    disk.put_back("/data", kept)
    disk.remove(log.active.path(ABORTED_INDEX))
    assert aborted(opened(disk)[1]) == before


@pytest.mark.parametrize("how", INDEX_HARMS)
def test_a_scrub_finds_a_harmed_index_and_writes_it_again_as_the_log_knows_it(how: str) -> None:
    disk = SimDisk()
    log = stopped(KILL, disk)
    segment = log.segments[1]
    path, whole = segment.path(ABORTED_INDEX), disk.read(segment.path(ABORTED_INDEX))
    seal = seal_of(segment.aborted.entries)
    told = ClosedSegment(segment.path(LOG), segment.base_offset, segment.next_offset, segment.size, aborted=seal)
    assert decode_segments(encode_segments([told])) == [told]
    assert not [step for step in check_all(disk, [told]) if isinstance(step, ScrubFinding)]
    harm(disk, path, how)
    (finding,) = [step for step in check_all(disk, [told]) if isinstance(step, ScrubFinding)]
    assert path in finding.index_fault and not finding.extents
    rebuilt = RebuiltIndexes(disk, segment)
    list(rebuilt.pieces())
    rebuilt.install()
    assert disk.read(path) == whole
    assert not [step for step in check_all(disk, [told]) if isinstance(step, ScrubFinding)]


@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("how", ["foreign", "longer", "garbage"])
def test_an_index_of_a_segment_without_batches_is_not_believed(how: str, stop: str) -> None:
    disk = SimDisk()
    log = stopped(KILL, disk)
    directory, log = opened(disk)
    log.roll(log.end_offset, T0)
    assert log.move_recovery_point() or log.recovery_point == log.end_offset
    sync(log)
    directory.checkpoint_recovery_points()
    if stop == CLEAN:
        directory.close(clean=True)
    before, path = aborted(log), log.active.path(ABORTED_INDEX)
    disk.open(path, create=True).release()
    overwrite(disk, path, bytes(ENTRY.size))
    harm(disk, path, how)
    _, again = opened(disk)
    assert again.active.aborted.entries == [] and aborted(again) == before


def test_an_index_that_is_made_late_in_a_segment_is_there_after_any_loss_of_power() -> None:
    """World 218831: its name was not on disk, and aborted records were shown to readers of committed ones.

    The snapshot that the next segment begins with was there, so no start read the markers again.
    """
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    for number in range(1, 4):  # the last one aborts; until then there is no file
        transact(log, number)
        assert log.move_recovery_point()
        sync(log)
    directory.checkpoint_recovery_points()
    before = aborted(log)
    assert any(before)
    log.roll(log.end_offset, T0)
    states = list(disk.legal_states())
    assert len(states) > 10
    for state in states:
        assert aborted(opened(state)[1]) == before


@pytest.mark.parametrize("noted", [True, False], ids=["with a note", "as Apache Kafka leaves it"])
@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("fault", [errno.EIO, errno.EACCES])
def test_an_index_that_cannot_be_read_is_built_anew(fault: int, stop: str, noted: bool) -> None:
    disk = SimDisk()
    log = stopped(stop, disk)
    before, files = aborted(log), indexes(disk)
    if not noted:
        disk.remove(NOTE)
    kept = disk.copied("/data")
    for name in files:
        disk.put_back("/data", kept)
        disk.fail("read", fault, where=f"{PATH}/{name}")
        _, again = opened(disk)
        assert disk.to_fail == 0
        assert aborted(again) == before, name
        again.close(clean=False)
        assert aborted(opened(disk)[1]) == before, name
