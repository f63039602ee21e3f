"""A start rebuilds indexes, snapshots and leader epochs that are missing, short or unreadable, and logs it."""

from __future__ import annotations

import errno

import pytest
from log_desk import T0, a_batch, a_directory, move_recovery_point, new_log, only_log, put, read_all, reopened, sync

from ottla.kernel.errors import ErrorCode
from ottla.sim.disk import SimDisk
from ottla.storage.checkpoint import DAMAGE, LEADER_EPOCHS
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import Log
from ottla.storage.segment.names import INDEX, LOG, TIME_INDEX
from ottla.storage.segment.scan import scan_headers
from ottla.storage.segment.walk import Extent

BATCHES, END = 48, 96
SMALL = {"internal_segment_bytes": 2000, "index_interval_bytes": 200}
CLEAN, KILL = "clean", "kill"
PATH = "/data/t-0"


def opened(disk: SimDisk) -> Log:
    directory = a_directory(disk)
    return only_log(directory, **SMALL)


def written(disk: SimDisk) -> tuple[LogDirectory, Log]:
    directory = a_directory(disk)
    log = new_log(directory, **SMALL)
    for at in range(BATCHES):
        put(log, a_batch(b"value-%02d" % (2 * at), b"value-%02d" % (2 * at + 1), timestamp=T0 + at), leader_epoch=4)
        sync(log)
    log.set_high_watermark(log.end_offset)
    return directory, log


def files(disk: SimDisk, suffix: str) -> list[str]:
    return [name for name in disk.list(PATH) if name.endswith(suffix)]


def said(log: Log) -> set[int]:
    """Offsets that the warnings of the start name."""
    return {offset for one in log.recovered.remarks for offset in range(one.first_offset, one.next_offset)}


def stopped(stop: str, disk: SimDisk) -> tuple[LogDirectory, Log]:
    """A log of several segments, all of it below its recovery point; its broker has stopped, or was killed."""
    directory, log = written(disk)
    assert len(log.segments) > 2
    move_recovery_point(directory, log)
    directory.checkpoint_high_watermarks()
    if stop == CLEAN:
        directory.close(clean=True)
    return directory, log


def harmed(disk: SimDisk, path: str, harm: str) -> None:
    if harm == "removed":
        disk.remove(path)
        return
    entry = 12 if path.endswith(TIME_INDEX) else 8
    file = disk.open(path)
    file.truncate(file.size() // (2 * entry) * entry if harm == "halved" else 0)
    file.release()


def test_a_clean_start_leaves_the_indexes_as_they_are_so_that_a_kill_finds_them():
    """A start reads the end of the log again, and would write its time entries only with the next checkpoint."""
    disk = SimDisk()
    directory, log = written(disk)
    sync(log)
    directory.close(clean=True)
    paths = [log.active.path(suffix) for suffix in (INDEX, TIME_INDEX)]
    before = [disk.read(path) for path in paths]
    assert all(before)
    opened(disk)
    assert [disk.read(path) for path in paths] == before
    again = opened(disk)
    assert again.recovered.remarks == ()
    put(again, a_batch(b"more", timestamp=T0 + BATCHES), leader_epoch=4)
    again.close(clean=True)
    assert disk.read(log.active.path(TIME_INDEX)) != before[1]
    assert reopened(again, clean=True).recovered.remarks == ()


@pytest.mark.parametrize("stop", [CLEAN, KILL])
def test_nothing_is_said_of_a_log_as_it_was_left(stop):
    disk = SimDisk()
    stopped(stop, disk)
    again = opened(disk)
    assert again.recovered.remarks == ()


@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("harm", ["removed", "emptied", "halved"])
@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("which", ["closed", "active"])
def test_an_index_that_has_lost_entries_is_built_anew_and_said_once(stop, harm, suffix, which):
    disk = SimDisk()
    _, log = stopped(stop, disk)
    segment = log.segments[1] if which == "closed" else log.active
    before = disk.read(segment.path(suffix))
    harmed(disk, segment.path(suffix), harm)
    again = opened(disk)
    is_used_as_it_is = which == "closed" and suffix == INDEX and harm in ("emptied", "halved")
    if not is_used_as_it_is:  # a read works without them, and a scrub finds that they are missing
        (remark,) = again.recovered.remarks
        assert f"an index of {segment.path(LOG)} was missing or wrong" in remark.what
        assert segment.base_offset in said(again)
        assert remark.bytes == segment.size
    found, refused = read_all(again)
    assert not refused and len(found) == END
    if which == "closed" and not is_used_as_it_is:
        assert disk.read(segment.path(suffix)) == before


def test_all_indexes_of_a_log_are_said_in_one_line():
    disk = SimDisk()
    _, log = stopped(CLEAN, disk)
    for name in [*files(disk, INDEX), *files(disk, TIME_INDEX)]:
        disk.remove(f"{PATH}/{name}")
    again = opened(disk)
    (remark,) = again.recovered.remarks
    assert (remark.first_offset, remark.next_offset) == (0, END)
    assert f"of {log.segments[0].path(LOG)} and of {len(log.segments) - 1} more segments" in remark.what
    assert remark.bytes == log.size_bytes


@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("harm", ["removed", "emptied", "halved"])
def test_a_lost_producer_snapshot_is_said(stop, harm):
    disk = SimDisk()
    _, _ = stopped(stop, disk)
    newest = files(disk, ".snapshot")[-1]
    harmed(disk, f"{PATH}/{newest}", harm)
    again = opened(disk)
    (remark,) = again.recovered.remarks
    assert f"the producer snapshot at {int(newest[:20])} was missing or damaged" in remark.what


def test_a_damaged_snapshot_inside_a_segment_is_said():
    """A clean stop leaves such a snapshot; the broker was killed some time after."""
    disk = SimDisk()
    directory, log = written(disk)
    directory.close(clean=True)
    again = opened(disk)
    put(again, a_batch(b"more", timestamp=T0 + BATCHES), leader_epoch=4)
    sync(again)
    newest = files(disk, ".snapshot")[-1]
    assert int(newest[:20]) == END > log.active.base_offset
    harmed(disk, f"{PATH}/{newest}", "halved")
    (remark,) = opened(disk).recovered.remarks
    assert f"the producer snapshot at {END} was missing or damaged" in remark.what


@pytest.mark.parametrize("stop", [CLEAN, KILL])
def test_leader_epochs_that_are_gone_are_taken_from_the_batches_and_said(stop):
    disk = SimDisk()
    _, log = stopped(stop, disk)
    disk.remove(f"{PATH}/leader-epoch-checkpoint")
    again = opened(disk)
    (remark,) = again.recovered.remarks
    assert "leader-epoch-checkpoint is missing or empty: the leader epochs are taken from" in remark.what
    assert again.epochs.entries == log.epochs.entries


@pytest.mark.parametrize("stop", [CLEAN, KILL])
def test_an_older_leader_epoch_checkpoint_is_found_by_the_batches_and_all_epochs_are_taken_from_them(stop):
    """Otherwise the newest epoch would begin at its first batch in the tail, and a follower would cut too little."""
    disk = SimDisk()
    directory, log = written(disk)
    older = disk.read(f"{PATH}/leader-epoch-checkpoint")
    for at in range(BATCHES):
        put(log, a_batch(b"more-%d" % at, timestamp=T0 + BATCHES + at), leader_epoch=9)
        sync(log)
    move_recovery_point(directory, log)
    if stop == CLEAN:
        directory.close(clean=True)
    assert log.epochs.entries == [(4, 0), (9, END)]
    path = f"{PATH}/leader-epoch-checkpoint"
    disk.remove(path)
    disk.open(path, create=True).write_at(0, [older])
    again = opened(disk)
    assert again.epochs.entries == [(4, 0), (9, END)]
    assert [one.what for one in again.recovered.remarks if "is older than the log" in one.what]


def test_an_epoch_that_begins_with_the_last_batch_of_a_segment_is_proved_by_the_next_segment():
    """An older checkpoint does not know it, and no batch of the same file stands behind it."""
    disk = SimDisk()
    _, log = written(disk)
    path = f"{PATH}/leader-epoch-checkpoint"
    older = disk.read(path)
    put(log, a_batch(b"last", timestamp=T0 + BATCHES), leader_epoch=9)
    log.roll(log.end_offset, T0)
    put(log, a_batch(b"first", timestamp=T0 + BATCHES + 1), leader_epoch=9)
    sync(log)
    disk.remove(path)
    disk.open(path, create=True).write_at(0, [older])
    again = opened(disk)
    assert not again.damage
    assert again.end_offset == log.end_offset
    assert again.epochs.entries == [(4, 0), (9, END)]


@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX, ".snapshot"])
@pytest.mark.parametrize("harm", ["directory", "unreadable", "read error"])
def test_an_index_or_snapshot_that_cannot_be_opened_is_set_aside_and_made_anew(stop, suffix, harm, caplog):
    disk = SimDisk()
    stopped(stop, disk)
    name = files(disk, suffix)[-1]
    spoil(disk, f"{PATH}/{name}", harm)
    again = opened(disk)
    assert [one for one in caplog.messages if f"{PATH}/{name} " in one and "it is made anew" in one]
    found, refused = read_all(again)
    assert not refused and len(found) == END


@pytest.mark.parametrize("harm", ["directory", "unreadable"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_closed_segment_that_cannot_be_opened_costs_its_own_offsets(harm, at, caplog):
    disk = SimDisk()
    _, log = stopped(CLEAN, disk)
    segment = log.segments[at]
    spoil(disk, segment.path(LOG), harm)
    again = opened(disk)
    found, refused = read_all(again)
    assert refused == list(range(segment.base_offset, segment.next_offset))
    assert set(refused) <= set(said(again))
    assert len(found) == END - len(refused) and again.end_offset == END
    assert [one for one in caplog.messages if segment.path(LOG) in one and "its offsets are refused" in one]
    assert [name for name in disk.list(PATH) if name.startswith(f"{segment.base_offset:020d}.log.") and "aside" in name]


def test_without_a_last_segment_that_cannot_be_opened_nobody_knows_where_the_log_ends():
    disk = SimDisk()
    _, log = stopped(CLEAN, disk)
    spoil(disk, log.active.path(LOG), "unreadable")
    with pytest.raises(PermissionError):
        opened(disk)
    assert disk.exists(log.active.path(LOG))


def test_a_last_segment_that_is_a_directory_costs_its_own_offsets():
    disk = SimDisk()
    _, log = stopped(CLEAN, disk)
    spoil(disk, log.active.path(LOG), "directory")
    again = opened(disk)
    found, refused = read_all(again)
    assert refused == list(range(log.active.base_offset, END)) and again.end_offset == END
    assert not isinstance(again.read(0, 1 << 20, limit_offset=END), ErrorCode)
    assert len(found) == log.active.base_offset


def spoil(disk: SimDisk, path: str, harm: str) -> None:
    if harm == "removed":
        disk.remove(path)
    elif harm == "directory":
        disk.remove(path)
        disk.make_directory(path)
    else:
        disk.fail("read", errno.EIO if harm == "read error" else errno.EACCES, where=path)


def test_an_empty_index_of_a_closed_segment_is_never_opened():
    """An unreadable empty index gives no remark: its segment is read from the beginning."""
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory, internal_segment_bytes=2000)
    for at in range(BATCHES):
        put(log, a_batch(b"%d" % at, timestamp=T0 + at), leader_epoch=4)
    directory.close(clean=True)
    path = log.segments[0].path(INDEX)
    assert disk.file_size(path) == 0
    again = opened(disk)
    disk.fail("read", errno.EACCES, where=path)
    found, refused = read_all(again)
    assert len(found) == BATCHES and not refused
    assert again.offset_for_timestamp(T0 + 3).offset == 3
    assert disk.to_fail == 1


@pytest.mark.parametrize(
    "body",
    [b"\x7f" * 12, b"\x00\x00\x00\x01" * 3, b"\x7f" * 8 + b"\x80\x00\x00\x00"],
    ids=["too new", "too old", "before the segment"],
)
def test_a_time_entry_of_no_batch_in_a_segment_without_offset_entries_is_said(body):
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    put(log, a_batch(b"one", timestamp=T0), leader_epoch=4)
    directory.close(clean=True)
    path = log.active.path(TIME_INDEX)
    assert disk.file_size(path) == 12
    disk.remove(path)
    disk.open(path, create=True).write_at(0, [body])
    again = opened(disk)
    (remark,) = again.recovered.remarks
    assert "an index of" in remark.what
    assert again.offset_for_timestamp(T0).offset == 0


@pytest.mark.parametrize("at", range(12))
def test_a_flipped_bit_of_the_only_time_entry_is_said_after_a_kill_too(at):
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    put(log, a_batch(b"one", timestamp=T0), leader_epoch=4)
    sync(log)
    move_recovery_point(directory, log)
    disk.flip_bit(log.active.path(TIME_INDEX), at)
    (remark,) = opened(disk).recovered.remarks
    assert f"an index of {log.active.path(LOG)}" in remark.what


def test_an_offset_index_of_garbage_is_said_after_a_kill():
    disk = SimDisk()
    _, log = stopped(KILL, disk)
    path = log.active.path(INDEX)
    size = disk.file_size(path)
    disk.remove(path)
    disk.open(path, create=True).write_at(0, [b"\x00\x00\x00\x03\x00\x00\x00\x05" * (size // 8)])
    (remark,) = opened(disk).recovered.remarks
    assert f"an index of {log.active.path(LOG)}" in remark.what


def test_a_time_entry_behind_the_end_is_said_after_a_clean_stop():
    disk = SimDisk()
    _, log = stopped(CLEAN, disk)
    path = log.active.path(TIME_INDEX)
    assert disk.file_size(path) >= 24
    disk.flip_bit(path, 8, 6)  # the offset of the first entry
    (remark,) = opened(disk).recovered.remarks
    assert f"an index of {log.active.path(LOG)}" in remark.what


@pytest.mark.parametrize("harm", ["removed", "directory", "unreadable"])
def test_the_place_of_a_missing_first_segment_has_room_for_the_batch_in_which_the_log_starts(harm):
    disk = SimDisk()
    directory, log = written(disk)
    log.delete_records_before(3)  # the second record of a batch
    directory.close(clean=True)
    first = log.segments[0]
    spoil(disk, first.path(LOG), harm)
    again = opened(disk)
    assert again.bases == log.bases and again.log_start_offset == 3
    found, refused = read_all(again)
    assert refused == list(range(3, first.next_offset)) and len(found) == END - first.next_offset


@pytest.mark.parametrize("harm", ["garbage", "emptied", "directory", "unreadable"])
def test_known_damage_whose_notes_are_lost_is_found_again_and_said(harm: str) -> None:
    """The segment fits its indexes, so that a start reads it for no other reason."""
    disk = SimDisk()
    directory, log = stopped(KILL, disk)
    second = log.segments[1]
    disk.flip_bit(second.path(LOG), second.size - 1)
    log.damage.note(second.base_offset, [Extent(second.base_offset, second.next_offset, 0, second.size)])
    directory.close(clean=True)
    notes = f"{PATH}/{DAMAGE}"
    if harm == "directory":
        disk.remove(notes)
        disk.make_directory(notes)
    elif harm == "unreadable":
        disk.fail("read", errno.EACCES, where=notes)
    else:
        disk.open(notes).truncate(0)
        disk.open(notes).write_at(0, [b"\x00garb" if harm == "garbage" else b""])
    again = opened(disk)
    assert not disk.to_fail
    (extent,) = again.damage.of(second.base_offset)
    assert again.damage.bases == [second.base_offset]
    assert second.base_offset <= extent.first_offset < extent.next_offset == second.next_offset
    assert [one.what for one in again.recovered.remarks if DAMAGE in one.what]
    assert disk.exists(f"{notes}.aside") == (harm == "directory")
    later = opened(disk)
    assert later.damage.of(second.base_offset) == (extent,)
    assert not [one.what for one in later.recovered.remarks if DAMAGE in one.what]


def test_a_log_without_damage_whose_notes_are_lost_stays_as_it_is() -> None:
    disk = SimDisk()
    stopped(CLEAN, disk)
    disk.open(f"{PATH}/{DAMAGE}", create=True).write_at(0, [b"?"])
    before = {name: disk.read(f"{PATH}/{name}") for name in disk.list(PATH) if name.endswith((LOG, INDEX, TIME_INDEX))}
    again = opened(disk)
    assert not again.damage and len(again.recovered.remarks) == 1
    assert {name: disk.read(f"{PATH}/{name}") for name in before} == before
    assert not [one.what for one in opened(disk).recovered.remarks if DAMAGE in one.what]


@pytest.mark.parametrize("stop", [CLEAN, KILL])
@pytest.mark.parametrize("which", [1, -1])
@pytest.mark.parametrize("at", [0, -1])
def test_an_epoch_that_flipped_is_not_believed_for_want_of_the_leader_epochs(stop: str, which: int, at: int) -> None:
    """At the last batch of the last segment nothing tells it from a new epoch."""
    disk = SimDisk()
    _, log = stopped(stop, disk)
    segment = log.segments[which]
    headers = list(scan_headers(segment.file, 0, segment.size))
    header = headers[at] if which == 1 or at == 0 else headers[-2]
    disk.flip_bit(segment.path(LOG), header.position + 15, 5)
    disk.remove(f"{PATH}/{LEADER_EPOCHS}")
    again = opened(disk)
    assert again.epochs.entries == [(4, 0)]
    found, refused = read_all(again)
    lost = range(header.base_offset, header.next_offset)
    assert refused == [*lost] and set(found) | set(refused) == set(range(END))
    assert set(lost) <= said(again) and all(again.damage.covers(offset) for offset in lost)
