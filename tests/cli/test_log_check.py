"""`ottla log check` tells whether the files of a stopped broker still hold what was written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.config.topic import TopicConfig
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.disk.local import LocalDisk
from ottla.storage.log import Log


def batch(number: int) -> Batch:
    return Batch(build_batch([Record(0, 1_700_000_000_000 + number, None, b"value-%03d" % number)]))


CONFIG = TopicConfig(internal_segment_bytes=5 * batch(0).size, index_interval_bytes=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of three segments of five batches."""
    log = Log.create(
        LocalDisk(), str(tmp_path / "t-0"), topic="t", partition=0, topic_id=bytes(16),
        config=CONFIG, wall_ms=0, producer_expiration_ms=1000, on_synced=lambda offset: None,
    )  # fmt: skip
    for number in range(15):
        log.append(batch(number), leader_epoch=0, wall_ms=0)
    log.close(clean=True)
    return tmp_path


def flip(path: Path, position: int) -> None:
    body = bytearray(path.read_bytes())
    body[position] ^= 4
    path.write_bytes(body)


def test_what_is_whole_is_said_to_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "check", str(folder)]) == 0
    assert capsys.readouterr().out == f"3 segments, {15 * batch(0).size} bytes: no damage\n"


def test_a_flipped_bit_is_named_by_its_offsets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = folder / "t-0" / "00000000000000000005.log"
    size = batch(0).size
    flip(damaged, 2 * size + 65)
    assert main(["log", "check", str(folder)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{damaged}: damaged from byte {2 * size} to {3 * size}: offsets 7 to 7"
    assert "put this file back from a backup" in said[1]
    assert said[2].endswith("bytes: 1 damaged place")
    assert main(["log", "check", str(folder / "t-0" / "00000000000000000000.log")]) == 0


def test_findings_are_told_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = {"segments": 3, "bytes": 15 * batch(0).size, "damaged": 0, "findings": []}
    assert main(["log", "check", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == whole
    damaged, size = folder / "t-0" / "00000000000000000005.log", batch(0).size
    flip(damaged, 2 * size + 65)
    assert main(["log", "check", str(folder), "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (found,) = told.pop("findings")
    assert told == {"segments": 3, "bytes": 15 * size, "damaged": 1}
    assert found["finding"] == f"{damaged}: damaged from byte {2 * size} to {3 * size}: offsets 7 to 7"
    assert "put this file back from a backup" in found["remedy"]


def test_an_index_that_points_elsewhere_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(folder / "t-0" / "00000000000000000000.index", 7)
    assert main(["log", "check", str(folder)]) == 1
    assert "its indexes are not this segment's: entry 0 of its offset index" in capsys.readouterr().out


def test_a_torn_end_is_no_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = folder / "t-0" / "00000000000000000010.log"
    last.write_bytes(last.read_bytes()[:-3])
    assert main(["log", "check", str(folder)]) == 0
    assert "a start after a crash cuts it there" in capsys.readouterr().out


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with such a log."""
    path = tmp_path / "data"
    directory = LogDirectory.open(
        LocalDisk(), str(path), cluster_id="c", node_id=1, new_directory_id="d", lock=LocalDisk().lock
    )
    log = directory.create_log(
        "t", 0, bytes(16), config=CONFIG, wall_ms=0, producer_expiration_ms=1000, on_synced=lambda offset: None
    )
    for number in range(15):
        log.append(batch(number), leader_epoch=0, wall_ms=0)
    directory.close(clean=True)
    return path


def test_a_log_directory_is_checked_as_a_start_would(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "check", str(data)]) == 0
    assert capsys.readouterr().out == f"3 segments, {15 * batch(0).size} bytes: no damage\n"
    (data / "t-0" / "00000000000000000005.log").unlink()
    (data / "recovery-point-offset-checkpoint").write_bytes(b"?")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert main(["log", "check", str(data.parent)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert any("recovery-point-offset-checkpoint: not a version 0 checkpoint" in line for line in said)
    at = next(at for at, line in enumerate(said) if "t-0, offsets 5 to 9, 0 bytes" in line)
    assert "put this file back from a backup of this folder" in said[at + 1]
    assert "a start would say the" in said[-1]
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_of_a_log_directory_in_use_only_segments_are_checked(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "recovery-point-offset-checkpoint").write_bytes(b"?")
    held = LocalDisk().lock(str(data / ".lock"))
    assert held is not None
    try:
        assert main(["log", "check", str(data)]) == 0
    finally:
        held.release()
    assert capsys.readouterr().err.splitlines()[0].startswith(f"{data} is in use: its broker says what it finds")


def test_a_lock_that_cannot_be_opened_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / ".lock").unlink()
    (data / ".lock").mkdir()
    assert main(["log", "check", str(data)]) == 1
    assert f"a start would refuse {data}: {data / '.lock'} is a directory" in capsys.readouterr().out


def test_an_epoch_that_the_checkpoint_does_not_know_is_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The leader epoch of a batch lies outside of its CRC."""
    flip(folder / "t-0" / "00000000000000000005.log", 2 * batch(0).size + 12)
    assert main(["log", "check", str(folder)]) == 1
    assert "offsets 7 to 7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "mode"), [("00000000000000000010.log", 0o444), ("", 0o555), ("00000000000000000005.log", 0o444)]
)
def test_a_partition_that_the_owner_may_not_write_is_named(
    data: Path, name: str, mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start cannot open it. Root may write everything: the owner of the log directory is taken for the broker."""
    if os.geteuid() == 0:
        for path in (data, *data.rglob("*")):
            os.chown(path, 65534, 65534)
    refused = data / "t-0" / name
    refused.chmod(mode)
    assert main(["log", "check", str(data)]) == 1
    said = capsys.readouterr().out
    assert str(refused) in said and "Permission denied" in said
    refused.chmod(0o755)
    assert main(["log", "check", str(data)]) == 0
    capsys.readouterr()
    data.chmod(0o555)
    assert main(["log", "check", str(data)]) == 1
    assert f"a start would refuse {data}: [Errno 13] Permission denied" in capsys.readouterr().out
    data.chmod(0o755)


def test_a_link_that_leads_nowhere_is_named_and_the_check_goes_on(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost, damaged = data / "t-0" / "00000000000000000000.log", data / "t-0" / "00000000000000000005.log"
    lost.unlink()
    lost.symlink_to("/nowhere/x")
    flip(damaged, 65)
    assert main(["log", "check", str(data)]) == 1
    said = capsys.readouterr().out.splitlines()
    at = said.index(f"{lost} is a link to /nowhere/x, and no file is there")
    assert "mount the disk that it leads to" in said[at + 1]
    assert f"{damaged}: damaged from byte 0 to {batch(0).size}: offsets 5 to 5" in said
    assert said[-1].startswith(f"2 segments, {10 * batch(0).size} bytes: 2 damaged places")
