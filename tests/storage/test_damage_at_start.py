"""A start after a kill: acknowledged records are read back unchanged, or refused and logged; no offset is reused."""

from __future__ import annotations

import errno

import pytest
from log_desk import T0, a_batch, a_directory, move_recovery_point, new_log, only_log, put, read_all, sync

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.sim.disk import SimDisk
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.disk.memory import MemoryDisk
from ottla.storage.log import Log
from ottla.storage.segment.names import INDEX, LOG, TIME_INDEX

PLACE = TopicPartition("t", 0)
PATH = "/data/t-0"
BATCHES, PER_BATCH = 6, 2
END = BATCHES * PER_BATCH


def opened(disk: MemoryDisk, **options: object) -> tuple[LogDirectory, Log]:
    directory = a_directory(disk)
    return directory, only_log(directory, **options)


def written(
    disk: MemoryDisk, *, batches: int = BATCHES, epochs: int = 1, **options: object
) -> tuple[LogDirectory, Log]:
    """A log whose records were all acknowledged; its broker has been killed without any checkpoint."""
    directory = a_directory(disk)
    log = new_log(directory, **options)
    for at in range(batches):
        values = [b"value-%02d" % (at * PER_BATCH + one) for one in range(PER_BATCH)]
        put(log, a_batch(*values, timestamp=T0 + at), leader_epoch=4 + at * epochs // batches)
        sync(log)
    log.set_high_watermark(log.end_offset)
    return directory, log


def files_of(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: disk.read(f"{PATH}/{name}") for name in disk.list(PATH)}


def put_back(disk: MemoryDisk, files: dict[str, bytes], root: dict[str, bytes]) -> None:
    """Put back the folder and the checkpoints beside it."""
    disk.remove_tree(PATH)
    disk.make_directory(PATH)
    for where, some in ((PATH, files), ("/data", root)):
        for name in disk.list(where):
            if not disk.is_directory(f"{where}/{name}"):
                disk.remove(f"{where}/{name}")
        for name, body in some.items():
            disk.open(f"{where}/{name}", create=True).write_at(0, [body])


def root_of(disk: MemoryDisk) -> dict[str, bytes]:
    names = [name for name in disk.list("/data") if not disk.is_directory(f"/data/{name}")]
    return {name: disk.read(f"/data/{name}") for name in names}


def said(log: Log) -> list[int]:
    """Offsets that WARNINGs of the start name."""
    spans = [range(one.first_offset, max(one.next_offset, one.first_offset + 1)) for one in log.recovered.remarks]
    return [offset for span in spans for offset in span]


def nothing_is_unseen(log: Log, *, end: int = END) -> None:
    """Check that each offset is read back as written, or refused and logged, and that the next offset is new."""
    found, refused = read_all(log)
    for offset in range(end):
        if offset in found:
            assert found[offset] == b"value-%02d" % offset, offset
        else:
            assert offset in refused and (offset in said(log) or log.damage.covers(offset)), offset
    assert set(found) <= set(range(end)), "records out of nowhere"
    assert log.end_offset >= end
    appended = put(log, a_batch(b"new"), leader_epoch=log.epochs.latest)
    assert appended.base_offset >= end
    assert read_all(log)[0][appended.base_offset] == b"new"


@pytest.mark.parametrize("checkpoint", ["none", "high watermarks", "recovery points", "clean"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_every_flipped_bit_of_the_active_segment_is_seen_after_a_kill(checkpoint: str, epochs: int) -> None:
    """Without a checkpoint a torn end is cut, which is logged."""
    disk = MemoryDisk()
    directory, log = written(disk, epochs=epochs)
    name = log.active.path(LOG).rpartition("/")[2]
    if checkpoint == "high watermarks":
        directory.checkpoint_high_watermarks()
    elif checkpoint == "recovery points":
        move_recovery_point(directory, log)
    elif checkpoint == "clean":
        directory.close(clean=True)
    files, root = files_of(disk), root_of(disk)
    last = len(files[name]) * (BATCHES - 1) // BATCHES
    for position in range(len(files[name])):
        for bit in range(8):
            body = bytearray(files[name])
            body[position] ^= 1 << bit
            put_back(disk, {**files, name: bytes(body)}, root)
            _, log = opened(disk)
            if position >= last and log.end_offset < END:
                assert checkpoint == "none" and log.end_offset == END - PER_BATCH
                assert log.recovered.truncated_bytes and log.recovered.lacks_end and END - PER_BATCH in said(log)
                nothing_is_unseen(log, end=END - PER_BATCH)
            else:
                nothing_is_unseen(log)


def test_a_flipped_base_offset_in_a_quarter_of_a_large_segment_stops_no_start() -> None:
    disk = MemoryDisk()
    _, log = written(disk, batches=400)
    path, size = log.active.path(LOG), log.active.size
    for position in range(size // 4, size // 4 + 120):
        file = disk.open(path)
        (before,) = file.read_at(position, 1)
        file.write_at(position, [bytes([before ^ 0x40])])
        files, root = files_of(disk), root_of(disk)
        _, again = opened(disk)
        nothing_is_unseen(again, end=400 * PER_BATCH)
        assert len(read_all(again)[1]) == PER_BATCH
        put_back(disk, files, root)
        disk.open(path).write_at(position, [bytes([before])])


def closed_segments(disk: MemoryDisk, **options: object) -> tuple[LogDirectory, Log]:
    size = a_batch(b"value-00", b"value-01").size
    directory, log = written(disk, internal_segment_bytes=2 * size, **options)
    assert len(log.segments) == 3
    return directory, log


@pytest.mark.parametrize("harm", ["removed", "emptied", "halved", "cut at a batch"])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("stop", ["killed", "killed after checkpoints", "clean"])
def test_a_segment_that_is_missing_or_too_short_is_a_gap_that_is_refused(harm: str, which: int, stop: str) -> None:
    disk = MemoryDisk()
    directory, log = closed_segments(disk)
    segment = log.segments[which]
    path, size = segment.path(LOG), segment.size
    if stop == "clean":
        directory.close(clean=True)
    elif stop == "killed after checkpoints":
        move_recovery_point(directory, log)
        directory.checkpoint_high_watermarks()
    if harm == "removed":
        for name in disk.list(PATH):
            if name.startswith(f"{segment.base_offset:020d}.") and not name.endswith(".snapshot"):
                disk.remove(f"{PATH}/{name}")
    else:
        disk.open(path).truncate({"emptied": 0, "halved": size // 2 + 9, "cut at a batch": size // 2}[harm])
    end = segment.base_offset if which == 2 and stop == "killed" else END
    for _ in range(3):  # later starts find the same damage
        directory, log = opened(disk)
        assert log.log_start_offset == 0
        found, refused = read_all(log)
        assert all(found[offset] == b"value-%02d" % offset for offset in found)
        assert set(range(end)) <= set(found) | set(refused)
        if end == END:
            assert refused and log.damage and log.end_offset == END
            assert set(refused) <= set(range(segment.base_offset, segment.base_offset + 2 * PER_BATCH))
        directory.checkpoint_recovery_points()
        directory.close(clean=stop == "clean")
    if end == END:
        nothing_is_unseen(opened(disk)[1])


def test_a_log_of_which_all_segments_are_gone_goes_on_behind_what_was_committed() -> None:
    disk = MemoryDisk()
    directory, log = closed_segments(disk)
    directory.checkpoint_high_watermarks()
    for segment in log.segments:
        disk.remove(segment.path(LOG))
    _, again = opened(disk)
    assert (again.log_start_offset, again.end_offset) == (0, END)
    nothing_is_unseen(again)


def test_a_first_segment_that_is_missing_moves_no_start_but_one_that_was_deleted_does() -> None:
    disk = MemoryDisk()
    directory, log = closed_segments(disk)
    first, second = log.segments[:2]
    log.delete_records_before(second.base_offset)
    directory.checkpoint_log_starts()
    disk.remove(first.path(LOG))
    directory, log = opened(disk)
    assert log.log_start_offset == second.base_offset and not log.damage and not log.recovered.remarks
    disk.remove(second.path(LOG))
    directory, log = opened(disk)
    assert log.log_start_offset == second.base_offset
    assert [(one.first_offset, one.next_offset) for one in log.damage.of(4)] == [(4, 8)]
    assert directory.offsets.start_on_disk(log) == second.base_offset


def test_a_start_that_retention_moved_is_known_by_the_leader_epochs_where_its_checkpoint_is_gone() -> None:
    disk = MemoryDisk()
    directory, log = closed_segments(disk, retention_bytes=1, file_delete_delay_ms=0)
    log.sync_now()
    directory.apply_retention(T0)
    disk.remove("/data/log-start-offset-checkpoint")
    start = log.log_start_offset
    assert start > 0
    _, again = opened(disk)
    assert again.log_start_offset == start and not again.damage


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_records_that_an_older_log_start_brings_back_are_said_and_no_start_deletes_them(stop: str) -> None:
    disk = MemoryDisk()
    directory, log = closed_segments(disk)
    log.delete_records_before(1)
    directory.checkpoint_log_starts()
    older = {name: body for name, body in root_of(disk).items() if name.startswith("log-start-offset")}
    assert len(older) == 2
    log.delete_records_before(6)
    directory.checkpoint_log_starts()
    directory.close(clean=stop == "clean")
    for name, body in older.items():
        disk.remove(f"/data/{name}")
        disk.open(f"/data/{name}", create=True).write_at(0, [body])
    directory, log = opened(disk)
    assert log.log_start_offset == 1 and set(read_all(log)[0]) == set(range(1, END))
    (remark,) = log.recovered.remarks
    assert (remark.first_offset, remark.next_offset) == (1, 6) and "deleted before may be back" in remark.what
    log.set_high_watermark(log.end_offset)
    assert log.delete_records_before(6) == 6
    directory.checkpoint_log_starts()
    directory.close(clean=stop == "clean")
    _, again = opened(disk)
    assert again.log_start_offset == 6 and not again.recovered.remarks


def test_a_checkpoint_that_has_the_log_start_behind_its_end_deletes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()
    closed_segments(disk)
    disk.open("/data/log-start-offset-checkpoint", create=True).write_at(0, [b"0\n1\nt 0 999\n"])
    _, again = opened(disk)
    assert again.log_start_offset == 0
    assert "999 was written down" in caplog.text
    nothing_is_unseen(again)


def test_segments_below_the_log_start_are_deleted_by_retention_and_by_no_start() -> None:
    disk = MemoryDisk()
    directory, log = closed_segments(disk)
    first = log.segments[0].path(LOG)
    log.delete_records_before(log.bases[1])
    directory.checkpoint_log_starts()
    directory, log = opened(disk, file_delete_delay_ms=0)
    assert disk.exists(first) and log.log_start_offset == log.bases[0] == 4
    directory.apply_retention(T0)
    assert not disk.exists(first)


@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("clean", [True, False])
def test_every_flipped_bit_of_an_active_index_leaves_all_records_readable(suffix: str, clean: bool) -> None:
    disk = MemoryDisk()
    options = {"index_interval_bytes": 1}
    directory, log = written(disk, **options)
    move_recovery_point(directory, log)
    path = log.active.path(suffix)
    if clean:
        directory.close(clean=True)
    files, root = files_of(disk), root_of(disk)
    for position in range(disk.file_size(path)):
        for bit in range(8):
            put_back(disk, files, root)
            file = disk.open(path)
            (before,) = file.read_at(position, 1)
            file.write_at(position, [bytes([before ^ 1 << bit])])
            _, again = opened(disk, **options)
            again.active.forget_recent()
            for start in range(END):
                read = again.read(start, 1, limit_offset=END)
                assert not isinstance(read, ErrorCode) and read.base_offset == start - start % PER_BATCH
            for at in range(BATCHES):
                looked = again.offset_for_timestamp(T0 + at)
                assert looked is not None and looked.offset == at * PER_BATCH
            nothing_is_unseen(again)


def test_a_torn_end_is_cut_and_said_once() -> None:
    disk = MemoryDisk()
    directory, log = written(disk)
    directory.checkpoint_high_watermarks()
    size = log.active.size
    log.active.file.write_at(size, [bytes(a_batch(b"torn").view[:40])])
    _, again = opened(disk)
    (remark,) = again.recovered.remarks
    assert (remark.first_offset, remark.bytes) == (END, 40) and "torn" in remark.what
    nothing_is_unseen(again)
    assert not opened(disk)[1].recovered.remarks


def test_after_a_loss_of_power_batches_behind_a_lost_sector_are_cut_with_it() -> None:
    """Unsynced batches may be lost in any order: none of them was acknowledged by all replicas."""
    disk = SimDisk()
    disk.make_directory("/data")
    directory = a_directory(disk)
    log = new_log(directory)
    for at in range(4):
        put(log, a_batch(b"%d" % at))
    log.sync_now()
    path, size = log.active.path(LOG), log.active.size
    disk.lose_unsynced()
    disk.flip_bit(path, 2 * size // 4 + 65)
    directory = a_directory(disk)
    again = only_log(directory)
    assert not directory.cache_kept
    assert again.end_offset == 2 and not again.damage and again.recovered.remarks


@pytest.mark.parametrize("which", [0, 1, 2])
def test_all_that_is_cut_is_said_and_whole_segments_behind_the_cut_are_kept(which: int) -> None:
    """Nothing tells what was on disk: no checkpoint, and no note that no power was lost."""
    disk = MemoryDisk()
    _, log = closed_segments(disk)
    disk.remove("/data/.page-cache")
    path, size = log.segments[which].path(LOG), log.segments[which].size
    behind = {segment.path(LOG): disk.read(segment.path(LOG)) for segment in log.segments[which + 1 :]}
    disk.open(path).write_at(size // 2 - 1, [bytes([disk.read(path)[size // 2 - 1] ^ 1])])
    first = log.bases[which]
    directory, log = opened(disk)
    assert not directory.cache_kept and log.end_offset == first
    (remark,) = log.recovered.remarks
    lost = size + sum(len(body) for body in behind.values())
    assert (remark.first_offset, remark.next_offset, remark.bytes) == (first, END, lost)
    assert log.recovered.truncated_bytes == lost
    asides = {f"{PATH}/{name}": disk.read(f"{PATH}/{name}") for name in disk.list(PATH) if name.endswith(".aside")}
    assert asides == {f"{at}.{T0}.aside": body for at, body in behind.items()}
    assert not any(f"{base:020d}.index" in disk.list(PATH) for base in (4, 8) if base > first)
    nothing_is_unseen(log, end=first)
    assert sorted(directory.deletions.files_aside) == sorted(asides)
    _, again = opened(disk)
    assert again.end_offset == first + 1 and not again.damage


def test_a_kill_after_a_loss_of_power_finds_no_damage_and_no_old_start_in_a_log_that_is_not_synced() -> None:
    """Both checkpoints name offsets that were lost: the start that finds it writes them down lower."""
    disk = SimDisk()
    disk.make_directory("/data")
    directory = a_directory(disk)
    log = new_log(directory, write_caching=True)
    for at in range(4):
        put(log, a_batch(b"%d" % at))
    log.set_high_watermark(4)
    assert log.delete_records_before(3) == 3
    directory.checkpoint_high_watermarks()
    directory.checkpoint_log_starts()
    disk.lose_unsynced()
    for written in range(3):
        directory = a_directory(disk)
        again = only_log(directory, write_caching=True)
        directory.note_recovered()
        assert directory.cache_kept == (written > 0)
        assert (again.log_start_offset, again.end_offset) == (0, written) and not again.damage
        put(again, a_batch(b"new"))


def test_a_loss_of_power_brings_no_deleted_record_of_a_log_that_is_not_synced_back() -> None:
    """Records before the start that was written down were lost too: what is left was deleted."""
    disk = SimDisk()
    disk.make_directory("/data")
    directory = a_directory(disk)
    log = new_log(directory, write_caching=True)
    for at in range(4):
        put(log, a_batch(b"%d" % at))
        if at == 1:
            log.syncing.sync_now()
    log.set_high_watermark(4)
    assert log.delete_records_before(3) == 3
    directory.checkpoint_high_watermarks()
    directory.checkpoint_log_starts()
    disk.lose_unsynced()
    for written in range(3):
        directory = a_directory(disk)
        again = only_log(directory, write_caching=True)
        directory.note_recovered()
        assert (again.log_start_offset, again.end_offset) == (2, 2 + written) and not again.damage
        assert bool(again.recovered.remarks) == (written == 0)
        put(again, a_batch(b"new"))


def test_a_kill_before_all_that_a_loss_of_power_took_is_noted_leaves_it_to_the_next_start() -> None:
    disk = SimDisk()
    disk.make_directory("/data")
    directory = a_directory(disk)
    log = new_log(directory, write_caching=True)
    put(log, a_batch(b"0"))
    log.set_high_watermark(1)
    directory.checkpoint_high_watermarks()
    disk.lose_unsynced()
    for _ in range(2):
        directory = a_directory(disk)
        again = only_log(directory, write_caching=True)
        assert not directory.cache_kept and again.end_offset == 0 and not again.damage


def test_a_note_for_which_the_disk_had_no_room_is_left_once_there_is() -> None:
    """Else a rotten batch above the checkpoints were cut at the start after a kill as if power had been lost."""
    disk = SimDisk()
    disk.make_directory("/data")
    directory = a_directory(disk)
    log = new_log(directory, write_caching=True)
    for at in range(4):
        put(log, a_batch(b"%d" % at))
    log.set_high_watermark(4)
    assert log.delete_records_before(3) == 3
    directory.checkpoint_high_watermarks()
    directory.checkpoint_log_starts()
    disk.lose_unsynced()
    directory = a_directory(disk)
    again = only_log(directory, write_caching=True)
    disk.fail("write", errno.ENOSPC, where="replication-offset-checkpoint")
    directory.note_recovered()
    for at in range(3):
        put(again, a_batch(b"new %d" % at))
    again.set_high_watermark(2)
    directory.checkpoint_high_watermarks()
    third = a_directory(disk)
    found = only_log(third, write_caching=True)
    assert third.cache_kept
    assert (found.log_start_offset, found.end_offset) == (0, 3) and not found.damage
    assert third.offsets.high_watermark(TopicPartition("t", 0)) == 2


def test_a_directory_with_a_replica_that_could_not_be_opened_is_not_marked_clean() -> None:
    """A failed sync may have dropped bytes of it: the next start looks for them again."""
    disk = SimDisk()
    disk.make_directory("/data")
    directory = a_directory(disk)
    put(new_log(directory), a_batch(b"0"))
    directory.unopened = True
    directory.close(clean=True)
    assert not a_directory(disk).clean
