"""A rehearsal reports what a start would log, and changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.config.topic import TopicConfig
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.storage.checkpoint import write_epochs
from ottla.storage.directory import rehearsal
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.rehearsal import is_log_directory, rehearse
from ottla.storage.disk.local import LocalDisk

NOW_MS = 1_700_000_000_000
CONFIG = TopicConfig(internal_segment_bytes=400, index_interval_bytes=1)
BATCHES = 15


@pytest.fixture(params=[True, False], ids=["stopped", "killed"])
def data(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A log directory with one log of several segments."""
    path = tmp_path / "data"
    directory = LogDirectory.open(LocalDisk(), str(path), cluster_id="c", node_id=1, new_directory_id="d")
    directory.witness.begin("run", str(path / ".kafka_cleanshutdown"))
    directory.witness.registered("run", 7, version=1, crc=None)
    log = directory.create_log(
        "t", 0, bytes(range(16)), config=CONFIG, wall_ms=NOW_MS, producer_expiration_ms=1, on_synced=lambda offset: None
    )
    for number in range(BATCHES):
        batch = Batch(build_batch([Record(0, NOW_MS + number, None, b"value-%03d" % number)]))
        log.append(batch, leader_epoch=0, wall_ms=NOW_MS)
    work = log.begin_sync()
    if work is not None:
        for file in work.files:
            file.sync()
        log.end_sync(work, None)
    log.set_high_watermark(log.end_offset)
    assert len(log.segments) > 2
    if request.param:
        directory.close(clean=True, broker_epoch=7)
    else:
        directory.checkpoint_recovery_points()
        directory.checkpoint_log_starts()
        directory.checkpoint_high_watermarks()
        directory.close(clean=False)
    return path


def files(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(each): (each.read_bytes(), each.stat().st_mtime_ns) for each in sorted(path.rglob("*")) if each.is_file()
    }


def said(data: Path) -> list[rehearsal.Said]:
    """Rehearse, and check that nothing was changed."""
    before = files(data)
    found = rehearse(str(data), wall_ms=NOW_MS)
    assert files(data) == before
    return found


def segments(data: Path) -> list[Path]:
    return sorted((data / "t-0").glob("*.log"))


def test_nothing_is_said_of_what_is_sound(data: Path) -> None:
    assert said(data) == []


def test_a_closed_segment_that_is_gone_is_said_with_its_offsets_and_the_remedy(data: Path) -> None:
    gone, following = segments(data)[1:3]
    gone.unlink()
    (one,) = [each for each in said(data) if each.remedy == rehearsal.REFUSED]
    assert f"t-0, offsets {int(gone.stem)} to {int(following.stem) - 1}, 0 bytes" in one.text


def test_a_checkpoint_that_is_garbled_is_said_to_be_mended(data: Path) -> None:
    (data / "log-start-offset-checkpoint").write_bytes(b"\xff" * 9)
    (one,) = said(data)
    assert "log-start-offset-checkpoint" in one.text
    assert one.remedy == rehearsal.MENDED


def test_records_that_an_older_log_start_brings_back_are_said_with_the_remedy(data: Path) -> None:
    epochs = data / "t-0" / "leader-epoch-checkpoint"
    write_epochs(LocalDisk(), str(epochs), [(0, 3)])
    (one,) = said(data)
    assert "t-0, offsets 0 to 2" in one.text and one.remedy == rehearsal.BACK


def test_a_partition_without_its_identity_is_said_to_be_offline(data: Path) -> None:
    for path in (data / "t-0").glob("partition.metadata*"):
        path.write_bytes(b"\xff")
    (one,) = [each for each in said(data) if each.remedy == rehearsal.OFFLINE]
    assert f"its offsets 0 to {BATCHES - 1} are refused" in one.text


def test_a_folder_that_is_gone_is_said(data: Path) -> None:
    shutil.rmtree(data / "t-0")
    (one,) = said(data)
    assert one.text == f"{data / 't-0'} is missing, and it held offsets up to {BATCHES - 1}"
    assert one.remedy == rehearsal.FETCHED


def as_an_older_release(folder: Path) -> None:
    """Leave the partition out of `partition.metadata`."""
    for path in folder.glob("partition.metadata*"):
        path.write_text("\n".join(path.read_text().splitlines()[:3]))


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("name", ["t_backup-0", "a-0"])
def test_a_copy_of_a_folder_is_said_and_the_folder_is_not(data: Path, name: str, older: bool) -> None:
    if older:
        as_an_older_release(data / "t-0")
    shutil.copytree(data / "t-0", data / name)
    (one,) = said(data)
    assert one.text.startswith(str(data / name)) and one.remedy == rehearsal.NAMED


def test_a_folder_that_says_that_it_holds_another_partition_is_said(data: Path) -> None:
    shutil.copytree(data / "t-0", data / "t-1")
    (one,) = said(data)
    assert one.text == f"{data / 't-1'}: its partition.metadata says that it holds t-0"


def test_what_makes_a_start_refuse_the_directory_is_said(data: Path) -> None:
    (data / "meta.properties").write_bytes(b"")
    (one,) = said(data)
    assert "meta.properties is damaged" in one.text and "It must hold the lines" in one.text


def test_a_log_directory_is_known_by_any_of_its_files(data: Path) -> None:
    names = [each.name for each in data.iterdir()]
    assert is_log_directory(names)
    assert is_log_directory(["meta.properties"]) and is_log_directory(["log-start-offset-checkpoint.copy"])
    assert not is_log_directory([each.name for each in (data / "t-0").iterdir()])
