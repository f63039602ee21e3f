"""The log directory: its identity, its lock, its checkpoints, and its failures."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from log_desk import T0, TOPIC_ID, a_batch, a_directory, local_directory, new_log, only_log, put, sync, values_of

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.storage import checkpoint
from ottla.storage.checkpoint import BadCheckpoint
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.ownership import DirectoryRefused
from ottla.storage.disk.local import LocalDisk
from ottla.storage.log import Log
from ottla.storage.segment.walk import Extent
from ottla.storage.values import parse_directory_name

# -- identity ---


def test_a_new_directory_gets_kafkas_meta_properties(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    values = checkpoint.parse_properties((tmp_path / "data" / "meta.properties").read_text())
    assert values == {"version": "1", "cluster.id": "c", "node.id": "1", "directory.id": "A" * 22}
    directory.close(clean=True)
    again = local_directory(tmp_path / "data", new_directory_id="B" * 22)
    assert again.directory_id == "A" * 22 and again.clean
    again.close(clean=True)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [({"cluster_id": "other"}, "says cluster 'c'"), ({"node_id": 2}, "says node.id 1")],
)
def test_a_directory_of_another_cluster_or_broker_is_refused_with_a_sentence(
    tmp_path: Path, how: dict[str, object], sentence: str
) -> None:
    local_directory(tmp_path / "data").close(clean=True)
    with pytest.raises(DirectoryRefused, match=sentence):
        local_directory(tmp_path / "data", **how)
    local_directory(tmp_path / "data").close(clean=True)  # the refusal let the lock go


def test_a_directory_that_holds_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(DirectoryRefused, match=r"photo\.jpg"):
        local_directory(tmp_path)
    assert os.listdir(tmp_path) == ["photo.jpg"]
    with pytest.raises(DirectoryRefused, match="is not a directory"):
        local_directory(tmp_path / "photo.jpg")
    local_directory(tmp_path, also_ours={"photo.jpg"}).close(clean=True)


# -- the lock ---


def test_a_second_opening_in_this_or_another_process_is_refused(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    with pytest.raises(DirectoryRefused, match="in use"):
        local_directory(tmp_path / "data")
    code = (
        "import sys; from ottla.storage.disk.local import LocalDisk\n"
        "sys.exit(0 if LocalDisk().lock(sys.argv[1]) is None else 1)"
    )
    lock = str(tmp_path / "data" / ".lock")
    assert subprocess.run([sys.executable, "-c", code, lock], check=False).returncode == 0
    directory.close(clean=True)
    assert subprocess.run([sys.executable, "-c", code, lock], check=False).returncode == 1


def test_the_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import sys, time; from ottla.storage.disk.local import LocalDisk\n"
        "lock = LocalDisk().lock(sys.argv[1]); print('held', flush=True); time.sleep(60)"
    )
    lock = str(tmp_path / ".lock")
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert LocalDisk().lock(lock) is None
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    taken = LocalDisk().lock(lock)
    assert taken is not None
    taken.release()


@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler")
def test_apache_kafkas_own_lock_is_respected_and_respects_ours(tmp_path: Path) -> None:
    """A single Java file with Kafka's lock: `RandomAccessFile(file, "rw").getChannel().tryLock()`."""
    source = tmp_path / "Hold.java"
    source.write_text(
        "import java.io.*;\n"
        "public class Hold { public static void main(String[] a) throws Exception {\n"
        '  var lock = new RandomAccessFile(a[0], "rw").getChannel().tryLock();\n'
        '  System.out.println(lock == null ? "refused" : "held"); System.out.flush();\n'
        "  if (lock != null) System.in.read();\n"
        "} }\n"
    )
    lock = str(tmp_path / ".lock")
    ours = LocalDisk().lock(lock)
    assert ours is not None
    command = ["java", str(source), lock]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"
    ours.release()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert LocalDisk().lock(lock) is None
        holder.communicate("\n")


# -- partitions ---


def test_partitions_are_found_again_with_their_topic_ids(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    new_log(directory, "with-dash", 12)
    new_log(directory, "t", 0, bytes(16))
    directory.close(clean=True)
    again = local_directory(tmp_path / "data")
    found = [(one.topic, one.partition, one.topic_id) for one in again.found]
    assert found == [("t", 0, bytes(16)), ("with-dash", 12, TOPIC_ID)]
    assert [one.recorded for one in again.found] == [("t", 0), ("with-dash", 12)]
    body = (tmp_path / "data" / "with-dash-12" / "partition.metadata").read_text()
    assert body.startswith("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\ncrc32c: ")
    again.close(clean=True)


def test_names_that_are_no_partition_are_none() -> None:
    assert parse_directory_name("a-b-3") == TopicPartition("a-b", 3)
    for name in ("t", "-1", "t-", "t-x", "t-1.5", "t-\u0663"):
        assert parse_directory_name(name) is None


def test_a_deleted_partition_is_renamed_first_and_its_name_may_be_used_again_at_once(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    log = new_log(directory)
    put(log, a_batch(b"old"))
    log.sync_now()
    directory.checkpoint_recovery_points()
    directory.delete_logs([TopicPartition("t", 0)])
    assert [name for name in os.listdir(directory.path) if name.endswith("-delete")] == [f"t-0.{TOPIC_ID.hex()}-delete"]
    new = new_log(directory, topic_id=bytes(16))
    put(new, a_batch(b"new"))
    assert values_of(new) == [b"new"]
    assert not directory.deletions.remove_one()
    assert sorted(name for name in os.listdir(directory.path) if name.startswith("t-")) == ["t-0"]
    directory.close(clean=False)
    again = local_directory(tmp_path / "data")
    assert values_of(only_log(again)) == [b"new"]
    again.close(clean=True)


def test_a_recreated_topic_is_not_measured_by_the_checkpoint_of_the_old_one_even_after_a_crash() -> None:
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    for _ in range(5):
        put(log, a_batch(b"old"))
    log.sync_now()
    log.set_high_watermark(5)
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks()
    directory.delete_logs([TopicPartition("t", 0)])
    disk.lose_unsynced()
    again = a_directory(disk)
    assert again.found == [] and again.offsets.places() == set()
    new_log(again, topic_id=bytes(16))
    disk.lose_unsynced()
    third = a_directory(disk)
    opened = only_log(third)
    assert opened.damaged_at is None and opened.end_offset == 0


def test_stray_and_deleted_directories_go_one_step_at_a_time(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    for partition in range(3):
        new_log(directory, partition=partition)
    directory.close(clean=True)
    (tmp_path / "data" / f"x-0.{'0' * 32}-delete").mkdir()
    again = local_directory(tmp_path / "data")
    again.discard(again.found[:2])
    steps = 1
    while again.deletions.remove_one():
        steps += 1
    assert steps == 3
    assert sorted(name for name in os.listdir(again.path) if name[0] in "tx") == ["t-2"]
    again.close(clean=True)


def test_a_very_long_topic_name_can_be_deleted(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    new_log(directory, "n" * 249)
    directory.delete_logs([TopicPartition("n" * 249, 0)])
    (name,) = [name for name in os.listdir(directory.path) if name.endswith("-delete")]
    assert len(name) == 255
    directory.close(clean=True)


# -- checkpoints ---


def test_checkpoints_are_in_kafkas_format(tmp_path: Path) -> None:
    directory = local_directory(tmp_path / "data")
    log = new_log(directory)
    new_log(directory, "a", 3)
    put(log, a_batch(b"1", b"2"), leader_epoch=4)
    log.sync_now()
    log.set_high_watermark(2)
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks()
    data = tmp_path / "data"
    for name, text in [
        ("recovery-point-offset-checkpoint", "0\n2\na 3 0\nt 0 2"),
        ("replication-offset-checkpoint", "0\n2\na 3 0\nt 0 2"),
        ("t-0/leader-epoch-checkpoint", "0\n1\n4 0"),
    ]:
        body = (data / name).read_text()
        assert body.rstrip() == text and len(body) == len(text) + 33  # the checksum: 32 blanks
    directory.close(clean=True, broker_epoch=77)
    assert json.loads((data / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": "77"}
    again = local_directory(data)
    assert again.clean and dict(again.offsets.by_name())[checkpoint.REPLICATION] == {("t", 0): 2, ("a", 3): 0}
    assert not (data / ".kafka_cleanshutdown").exists()
    again.close(clean=False)
    assert not local_directory(data).clean


@pytest.mark.parametrize(
    "body", ["", "0", "1\n0\n", "0\n2\nt 0 1\n", "0\n1\nt 0\n", "0\n1\nt x 1\n", "0\nx\n", "\x00" * 40]
)
def test_a_checkpoint_that_does_not_parse_is_said_so_and_costs_only_a_longer_check(tmp_path: Path, body: str) -> None:
    directory = local_directory(tmp_path / "data")
    put(new_log(directory), a_batch(b"kept"))
    directory.close(clean=True)
    path = tmp_path / "data" / "recovery-point-offset-checkpoint"
    path.write_text(body)
    with pytest.raises(BadCheckpoint):
        checkpoint.read_offsets(LocalDisk(), str(path))
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    again = local_directory(tmp_path / "data")
    assert values_of(only_log(again)) == [b"kept"]
    again.close(clean=True)


def test_every_legal_crash_state_of_a_checkpoint_is_the_old_or_the_new() -> None:
    cut, states = 0, 0
    while True:
        disk = SimDisk()
        disk.make_directory("/data")
        disk.sync_directory("/")
        checkpoint.write_offsets(disk, "/data/c", {TopicPartition("t", 0): 1})
        disk.cut_after = disk.operations + cut
        try:
            checkpoint.write_offsets(disk, "/data/c", {TopicPartition("t", 0): 2})
            ended = True
        except PowerCut:
            ended = False
        disk.cut_after = None
        for state in disk.legal_states():
            states += 1
            (offset,) = checkpoint.read_offsets(state, "/data/c").values()
            assert offset == 2 if ended else offset in (1, 2)
        if ended:
            assert states > 10
            return
        cut += 1


@pytest.mark.parametrize("clean", [True, False])
def test_damage_is_damage_in_every_later_start_and_nothing_behind_it_is_cut_off(clean: bool) -> None:
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    for at in range(5):
        put(log, a_batch(b"%d" % at))
    log.sync_now()
    log.set_high_watermark(5)
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks()
    path, size = f"{log.directory}/{0:020d}.log", log.active.size
    directory.close(clean=False)
    disk.flip_bit(path, 2 * size // 5 + 65)
    for _ in range(3):
        directory = a_directory(disk)
        log = only_log(directory)
        assert log.damage.of(0) == (Extent(2, 3, 2 * size // 5, 3 * size // 5),)
        assert log.read(2, 100, limit_offset=5) is ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(log, limit=2) == [b"0", b"1"] and values_of(log, start=3) == [b"3", b"4"]
        assert log.end_offset == log.active.base_offset == 5
        assert directory.offsets.high_watermark(TopicPartition("t", 0)) == 5
        directory.checkpoint_recovery_points()
        directory.checkpoint_log_starts()
        directory.checkpoint_high_watermarks()
        directory.apply_retention(T0)
        directory.close(clean=clean)
        assert disk.file_size(path) == size, "the file is evidence"
    assert put(only_log(a_directory(disk)), a_batch(b"5")).base_offset == 5


def test_a_truncation_below_the_checkpointed_recovery_point_is_not_taken_for_damage_after_a_crash() -> None:
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    for at in range(6):
        put(log, a_batch(b"%d" % at))
    log.sync_now()
    directory.checkpoint_recovery_points()
    log.truncate_to(3)
    sync(log)
    disk.lose_unsynced()
    opened = only_log(a_directory(disk))
    assert opened.damaged_at is None and values_of(opened) == [b"0", b"1", b"2"]


def test_the_log_start_does_not_go_back_after_retention_and_a_crash() -> None:
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory, internal_segment_bytes=100, file_delete_delay_ms=0)
    for at in range(6):
        put(log, a_batch(b"%d" % at))
    sync(log)
    log.set_high_watermark(6)
    log.delete_records_before(4)
    assert directory.apply_retention(T0) == 4
    disk.lose_unsynced()
    opened = only_log(a_directory(disk))
    assert opened.log_start_offset == 4 and values_of(opened) == [b"4", b"5"]


def test_every_legal_crash_state_of_retention_leaves_a_log_without_a_hole() -> None:
    cut, states = 0, 0
    while True:
        disk = SimDisk()
        directory = a_directory(disk)
        log = new_log(directory, internal_segment_bytes=100, file_delete_delay_ms=0)
        for at in range(4):
            put(log, a_batch(b"%d" % at))
        log.sync_now()
        log.set_high_watermark(4)
        log.delete_records_before(2)
        disk.cut_after = disk.operations + cut
        try:
            directory.apply_retention(T0)
            ended = True
        except PowerCut:
            ended = False
        disk.cut_after = None
        for state in disk.legal_states():
            states += 1
            opened = only_log(a_directory(state))
            assert opened.log_start_offset == 2 if ended else opened.log_start_offset in (0, 2)
            assert values_of(opened) == [b"%d" % at for at in range(opened.log_start_offset, 4)]
        if ended:
            assert states > 100
            return
        cut += 1


def test_retention_makes_room_on_a_full_disk_that_has_none_for_a_checkpoint_and_a_crash_leaves_no_hole() -> None:
    def filled() -> tuple[SimDisk, LogDirectory, Log]:
        disk = SimDisk()
        directory = a_directory(disk)
        log = new_log(directory, internal_segment_bytes=200, retention_bytes=500, file_delete_delay_ms=0)
        for at in range(12):
            put(log, a_batch(b"%d" % at, producer_id=1, sequence=at))
        log.sync_now()
        log.set_high_watermark(12)
        disk.capacity_bytes = disk.used_bytes()
        return disk, directory, log

    disk, directory, log = filled()
    assert log.append(a_batch(b"x"), leader_epoch=0, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert directory.apply_retention(T0) >= 2
    assert put(log, a_batch(b"x")).base_offset == 12
    whole, cut = disk.operations, 0
    while cut < whole:
        disk, directory, log = filled()
        disk.cut_after = disk.operations + cut
        with contextlib.suppress(PowerCut):
            directory.apply_retention(T0)
            cut = whole
        disk.cut_after = None
        for state in disk.legal_states():
            state.capacity_bytes = 1 << 62
            opened = only_log(a_directory(state))
            assert values_of(opened) == [b"%d" % at for at in range(opened.log_start_offset, 12)]
            assert opened.active_producers()[0].last_sequence == 11
        cut += 1


# -- failure ---


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync names"])
def test_a_log_that_cannot_be_made_whole_leaves_nothing_under_its_name(operation: str) -> None:
    skip, made = 0, False
    while not made:
        disk = SimDisk()
        directory = a_directory(disk)
        disk.fail(operation, errno.ENOSPC, where="/data/t-0", skip=skip)
        try:
            new_log(directory)
            made = True
        except OSError:
            assert not [name for name in disk.list("/data") if name.startswith("t-")]
            assert directory.logs == {}
            new_log(directory)  # as soon as there is room
            skip += 1
    assert skip > 0


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync names"])
def test_what_holds_records_is_not_removed_where_a_log_could_not_be_made_in_its_place(operation: str) -> None:
    refused = 0
    for skip in range(6):
        disk = SimDisk()
        directory = a_directory(disk)
        log = new_log(directory)
        put(log, a_batch(b"value"))
        sync(log)
        log.close(clean=False)
        disk.fail(operation, errno.ENOSPC, where="/data/t-0", skip=skip)
        try:
            assert new_log(directory).end_offset == 0
        except OSError:
            refused += 1
        kept = [f"/data/{name}/{'0' * 20}.log" for name in disk.list("/data") if name.startswith("t-0")]
        assert any(disk.exists(path) and disk.file_size(path) > 0 for path in kept)
    assert refused > 0


def test_a_failed_directory_writes_nothing_any_more_and_is_not_marked_clean() -> None:
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory)
    put(log, a_batch(b"a"))
    directory.fail(OSError(errno.EIO, "broken"))
    assert log.append(a_batch(b"b"), leader_epoch=0, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
    before = disk.operations
    directory.checkpoint_high_watermarks()
    assert disk.operations == before
    assert values_of(log) == [b"a"]
    directory.close(clean=True)
    assert not a_directory(disk).clean


@pytest.mark.parametrize("write_caching", [False, True])
def test_a_log_in_a_failed_directory_is_not_cut_as_no_checkpoint_can_tell_of_it(write_caching: bool) -> None:
    """World 213875: the file was cut, the recovery point was not lowered, and the next start took that for damage."""
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory, write_caching=write_caching)
    put(log, a_batch(b"a"))
    put(log, a_batch(b"b"))
    log.sync_now()
    directory.checkpoint_recovery_points()
    directory.fail(OSError(errno.EIO, "another log of the directory could not be read"))
    size = disk.file_size("/data/t-0/00000000000000000000.log")
    with pytest.raises(OSError, match="has failed"):
        log.truncate_to(1)
    with pytest.raises(OSError, match="has failed"):
        log.truncate_fully_to(5, wall_ms=T0)
    assert disk.file_size("/data/t-0/00000000000000000000.log") == size
    directory.close(clean=True)
    opened = only_log(a_directory(disk), write_caching=write_caching)
    assert values_of(opened) == [b"a", b"b"] and not opened.recovered.remarks


def test_retention_takes_no_file_in_a_failed_directory_as_no_checkpoint_can_tell_of_it() -> None:
    disk = SimDisk()
    directory = a_directory(disk)
    log = new_log(directory, internal_segment_bytes=100, file_delete_delay_ms=0)
    for at in range(4):
        put(log, a_batch(b"%d" % at))
    log.sync_now()
    log.set_high_watermark(4)
    log.delete_records_before(2)
    directory.fail(OSError(errno.EIO, "another log of the directory could not be read"))
    before = disk.list("/data/t-0")
    with pytest.raises(OSError, match="has failed"):
        directory.apply_retention(T0)
    assert disk.list("/data/t-0") == before


def test_a_real_process_killed_at_any_moment_keeps_what_it_said_was_synced(tmp_path: Path) -> None:
    """kill -9 keeps the page cache: this tests half-written files; power cuts are tested on the simulated disk."""
    code = Path(__file__).parents[1] / "append_until_killed.py"
    data = tmp_path / "data"
    for round_number in range(6):
        with subprocess.Popen(
            [sys.executable, str(code), str(data), str(round_number)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            synced = 0
            for count, line in enumerate(writer.stdout):  # reads up to the last line of the process
                synced = int(line) if line.endswith("\n") else synced
                if count == 20 + 17 * round_number:
                    writer.send_signal(signal.SIGKILL)
            writer.wait()
        directory = local_directory(data)
        assert not directory.clean
        log = only_log(directory, internal_segment_bytes=20_000)
        values = values_of(log)
        assert log.damaged_at is None and log.end_offset >= synced > 0
        assert values == [b"%d" % at for at in range(log.end_offset)]
        directory.close(clean=False)


def test_syncs_that_are_gathered_are_one_and_none_where_nothing_was_to_be_synced(tmp_path, monkeypatch):
    synced: list[str] = []
    monkeypatch.setattr("ottla.storage.disk.local.sync_file_system", synced.append)
    disk, here = LocalDisk(), str(tmp_path)
    with disk.gathered(here):
        pass
    assert synced == []
    with disk.gathered(here):
        for name in ("a", "b"):
            file = disk.open(f"{here}/{name}", create=True)
            file.write_at(0, [b"x"])
            file.sync()
            file.release()
        disk.sync_directory(here)
        assert synced == []
    assert synced == [here]
