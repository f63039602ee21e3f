"""The simulated disk: writes that a crash may lose, and writes that it must keep."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk, OpenFile
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.storage.checkpoint import read_offsets, write_offsets
from ottla.storage.disk.local import LocalDisk
from ottla.storage.disk.memory import MemoryDisk


def a_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/d")
    disk.sync_directory("/")
    return disk


def put(disk: Disk, path: str, body: bytes, *, sync: bool = False) -> None:
    file = disk.open(path, create=True)
    file.write_at(file.size(), [body])
    if sync:
        file.sync()
    file.release()


def contents(disk: Disk, directory: str = "/d") -> dict[str, bytes]:
    return {name: disk.read(f"{directory}/{name}") for name in disk.list(directory)}


def test_what_was_synced_with_its_name_survives_every_crash() -> None:
    for seed in range(50):
        disk = a_disk()
        put(disk, "/d/f", b"x" * 2000, sync=True)
        disk.sync_directory("/d")
        put(disk, "/d/f", b"y" * 2000)
        put(disk, "/d/g", b"z")
        disk.crash(Random(seed))
        assert disk.read("/d/f")[:2000] == b"x" * 2000


def test_a_synced_file_without_a_synced_name_may_be_gone() -> None:
    disk = a_disk()
    put(disk, "/d/f", b"x", sync=True)
    states = [contents(state) for state in disk.legal_states()]
    assert {} in states and {"f": b"x"} in states and len(states) == 2


def test_unsynced_sectors_come_through_in_any_combination() -> None:
    disk = a_disk()
    put(disk, "/d/f", b"", sync=True)
    disk.sync_directory("/d")
    put(disk, "/d/f", b"a" * 512 + b"b" * 512 + b"c" * 10)
    states = {contents(state)["f"] for state in disk.legal_states()}
    a, b, c, hole = b"a" * 512, b"b" * 512, b"c" * 10, bytes(512)
    torn = {first + second + third for first in (a, hole) for second in (b, hole) for third in (c, bytes(10))}
    assert states == torn | {b"", a, hole + b, a + b}


def test_a_rename_is_whole_but_may_be_lost_and_may_come_before_its_data() -> None:
    disk = a_disk()
    put(disk, "/d/f", b"old", sync=True)
    disk.sync_directory("/d")
    put(disk, "/d/f.tmp", b"new")
    disk.rename("/d/f.tmp", "/d/f")
    finals = {state.read("/d/f") for state in disk.legal_states()}
    assert finals == {b"old", b"new", b"", bytes(3)}
    for state in disk.legal_states():
        assert state.exists("/d/f")


def test_syncs_that_are_gathered_are_done_at_the_end_and_a_cut_before_it_finds_them_in_any_order() -> None:
    disk = a_disk()
    with disk.gathered("/d"):
        put(disk, "/d/f", b"f", sync=True)
        disk.sync_directory("/d")
        put(disk, "/d/g", b"g", sync=True)
        disk.sync_directory("/d")
        assert {"g": b"g"} in [contents(state) for state in disk.legal_states()]
    assert [contents(state) for state in disk.legal_states()] == [{"f": b"f", "g": b"g"}]


def test_a_directorys_checkpoint_is_the_old_or_the_new_where_syncs_are_gathered_too() -> None:
    disk = a_disk()
    write_offsets(disk, "/d/starts", {TopicPartition("t", 0): 1})
    with disk.gathered("/d"):
        write_offsets(disk, "/d/starts", {TopicPartition("t", 0): 2})
        found = [read_offsets(state, "/d/starts")[TopicPartition("t", 0)] for state in disk.legal_states()]
    assert sorted(set(found)) == [1, 2]


def test_gathered_syncs_that_fail_drop_their_pages() -> None:
    disk = a_disk()
    with pytest.raises(OSError, match="sync"), disk.gathered("/d"):
        put(disk, "/d/f", b"f", sync=True)
        disk.sync_directory("/d")
        disk.fail("sync", errno.EIO)
    disk.sync_directory("/d")
    disk.lose_unsynced()
    assert contents(disk) == {"f": b""}


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
def test_a_failed_sync_is_never_one_of_a_full_disk(error: int) -> None:
    disk = a_disk()
    file = disk.open("/d/f", create=True)
    disk.fail("sync", error, where="/d/f")
    with pytest.raises(OSError, match="sync") as alone:
        file.sync()
    with pytest.raises(OSError, match="sync") as gathered, disk.gathered("/d"):
        file.sync()
        disk.fail("sync", error)
    assert [fault.value.errno for fault in (alone, gathered)] == [errno.EIO] * 2
    assert [fault.value.filename for fault in (alone, gathered)] == ["/d/f", "/d"]


def test_truncation_and_removal_may_be_undone() -> None:
    disk = a_disk()
    put(disk, "/d/f", b"abcdef", sync=True)
    put(disk, "/d/g", b"g", sync=True)
    disk.sync_directory("/d")
    file = disk.open("/d/f")
    file.truncate(2)
    disk.remove("/d/g")
    states = [contents(state) for state in disk.legal_states()]
    assert {"f": b"abcdef", "g": b"g"} in states and {"f": b"ab"} in states and len(states) == 4


def test_a_drawn_crash_is_one_of_the_legal_states_and_all_of_them_are_drawn_in_time() -> None:
    def prepared() -> SimDisk:
        disk = a_disk()
        put(disk, "/d/f", b"a" * 600)
        disk.rename("/d/f", "/d/g")
        return disk

    legal = {repr(contents(state)) for state in prepared().legal_states()}
    drawn = set()
    for seed in range(400):
        disk = prepared()
        disk.crash(Random(seed))
        drawn.add(repr(contents(disk)))
    assert drawn == legal


def test_open_files_are_dead_after_a_crash() -> None:
    disk = a_disk()
    file = disk.open("/d/f", create=True)
    disk.crash(Random(0))
    with pytest.raises(OSError):
        file.read_at(0, 1)
    with pytest.raises(OSError):
        file.write_at(0, [b"x"])
    file.release()


def test_a_failed_sync_drops_the_pages_and_the_next_one_succeeds_without_them() -> None:
    disk = a_disk()
    file = disk.open("/d/f", create=True)
    disk.sync_directory("/d")
    file.write_at(0, [b"lost"])
    disk.fail("sync", errno.EIO)
    with pytest.raises(OSError):
        file.sync()
    file.sync()
    assert file.read_at(0, 4) == b"lost"
    disk.lose_unsynced()
    assert disk.read("/d/f") == b""


def test_a_write_on_a_full_disk_comes_short_and_there_is_room_again_later() -> None:
    disk = SimDisk(capacity_bytes=10)
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    with pytest.raises(OSError) as caught:
        file.write_at(0, [b"12345678", b"90ab"])
    assert caught.value.errno == errno.ENOSPC and file.size() == 10 and disk.free_bytes("/d") == 0
    file.truncate(4)
    file.write_at(4, [b"123456"])
    file.write_at(0, [b"overwritten"[:10]])


def test_faults_come_once_at_their_turn() -> None:
    disk = a_disk()
    file = disk.open("/d/f", create=True)
    disk.fail("write", errno.EIO, where="/f", skip=1)
    disk.fail("short write", errno.ENOSPC, where="/g")
    file.write_at(0, [b"one"])
    with pytest.raises(OSError):
        file.write_at(3, [b"two"])
    file.write_at(3, [b"two"])
    assert file.read_at(0, 10) == b"onetwo"
    other = disk.open("/d/g", create=True)
    with pytest.raises(OSError):
        other.write_at(0, [b"1234"])
    assert other.size() == 2
    disk.fail("read", errno.EIO)
    with pytest.raises(OSError):
        disk.read("/d/f")
    disk.flip_bit("/d/f", 0, bit=1)
    assert disk.read("/d/f") == b"mnetwo"


def two_directories() -> tuple[SimDisk, OpenFile]:
    disk = SimDisk()
    for path in ("/data/t-0", "/more"):
        disk.make_directory(path)
    file = disk.open("/data/t-0/a", create=True)
    file.write_at(0, [b"x"])
    return disk, file


def test_in_a_directory_that_has_failed_all_is_refused_until_it_is_another() -> None:
    disk, file = two_directories()
    disk.broken["/data"] = None
    refused: list[Callable[[], object]] = [
        lambda: disk.open("/data/t-0/a"),
        lambda: disk.open("/data/b", create=True),
        lambda: disk.read("/data/t-0/a"),
        lambda: disk.list("/data"),
        lambda: disk.file_size("/data/t-0/a"),
        lambda: disk.modified_ms("/data/t-0/a"),
        lambda: disk.set_modified_ms("/data/t-0/a", 1),
        lambda: disk.make_directory("/data/t-1"),
        lambda: disk.rename("/data/t-0", "/more/t-0"),
        lambda: disk.remove("/data/t-0/a"),
        lambda: disk.sync_directory("/data"),
        lambda: file.write_at(1, [b"y"]),
        lambda: file.read_at(0, 1),
        lambda: file.truncate(0),
        file.size,
        file.sync,
    ]
    for operation in refused:
        with pytest.raises(OSError, match="simulated failure of /data"):
            operation()
    disk.make_directory("/more/t-1")
    disk.replace("/data")
    assert not disk.exists("/data/t-0")
    disk.make_directory("/data/t-0")


@pytest.mark.parametrize("after", [0, 1, 2])
def test_what_lies_in_wait_strikes_so_many_operations_after_a_rename(after: int) -> None:
    disk, _ = two_directories()
    disk.make_directory("/more/t-0.7-future")
    steps = (
        lambda: disk.rename("/more/t-0.7-future", "/more/t-0"),
        lambda: disk.sync_directory("/more"),
        lambda: disk.rename("/data/t-0", "/data/t-0.7-delete"),
    )
    disk.lie_in_wait("-future", after, lambda: disk.broken.update({"/data": None, "/more": None}))
    disk.rename("/data/t-0/a", "/data/t-0/b")
    disk.sync_directory("/data/t-0")
    for step in steps[:after]:
        step()
    with pytest.raises(OSError, match="simulated failure"):
        steps[after]()
    disk.forget_faults()
    disk.rename("/more/t-0" if after else "/more/t-0.7-future", "/more/again-future")
    disk.rename("/more/again-future", "/more/t-0")
    assert disk.broken == {}, "once"


def test_the_power_goes_before_the_operation_it_was_told() -> None:
    disk = a_disk()
    disk.cut_after = disk.operations + 2
    put(disk, "/d/f", b"x")
    with pytest.raises(PowerCut):
        put(disk, "/d/g", b"x")
    assert disk.list("/d") == ["f"]


def test_the_same_seed_gives_the_same_crash() -> None:
    def crashed() -> dict[str, bytes]:
        disk = a_disk()
        for at in range(10):
            put(disk, f"/d/{at}", b"%d" % at * 300)
        disk.crash(Random(9))
        return contents(disk)

    assert crashed() == crashed()


@pytest.fixture(params=["local", "memory", "simulated"])
def any_disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "local":
        return LocalDisk(), str(tmp_path)
    disk: Disk = MemoryDisk() if request.param == "memory" else SimDisk()
    disk.make_directory("/base")
    return disk, "/base"


def test_all_three_disks_behave_alike(any_disk: tuple[Disk, str]) -> None:
    disk, base = any_disk
    disk.make_directory(f"{base}/a/b")
    disk.make_directory(f"{base}/a/b")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{base}/a/f")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{base}/nowhere/f", create=True)
    file = disk.open(f"{base}/a/f", create=True)
    file.write_at(2, [b"cd", memoryview(b"ef"), bytearray(b"g")])
    assert file.read_at(0, 100) == b"\0\0cdefg" and file.size() == 7
    file.write_at(0, [b"ab"])
    assert file.read_at(1, 3) == b"bcd" and file.read_at(7, 5) == b""
    file.truncate(3)
    file.truncate(5)
    assert disk.read(f"{base}/a/f") == b"abc\0\0" and disk.file_size(f"{base}/a/f") == 5
    file.hold()
    file.release()
    disk.rename(f"{base}/a/f", f"{base}/a/g")
    assert disk.list(f"{base}/a") == ["b", "g"]
    assert disk.is_directory(f"{base}/a/b") and not disk.is_directory(f"{base}/a/g")
    disk.remove(f"{base}/a/g")
    disk.remove(f"{base}/a/g")
    assert file.read_at(0, 3) == b"abc", "an open file outlives its name"
    file.sync()
    file.release()
    put(disk, f"{base}/a/b/h", b"h")
    disk.rename(f"{base}/a", f"{base}/c")
    assert disk.read(f"{base}/c/b/h") == b"h" and not disk.exists(f"{base}/a")
    disk.set_modified_ms(f"{base}/c/b/h", 1_234_567)
    assert disk.modified_ms(f"{base}/c/b/h") == 1_234_567
    disk.sync_directory(f"{base}/c")
    assert disk.free_bytes(base) > 0
    disk.remove_tree(f"{base}/c")
    disk.remove_tree(f"{base}/c")
    assert disk.list(base) == []


def test_the_last_holder_closes_the_descriptor(tmp_path: Path) -> None:
    file = LocalDisk().open(str(tmp_path / "f"), create=True)
    descriptor = file.fileno()
    file.hold()
    file.release()
    os.fstat(descriptor)
    file.release()
    with pytest.raises(OSError):
        os.fstat(descriptor)
    with pytest.raises(InvariantBroken):
        file.hold()
