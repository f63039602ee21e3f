"""Something else than a file under the name of a segment or an index costs no more than what it replaces."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from log_desk import T0, a_batch, local_directory, new_log, only_log, put, read_all

from ottla.storage.directory.strays import strays
from ottla.storage.segment.names import INDEX, LOG, TIME_INDEX

COUNT, PER_SEGMENT = 20, 3
OPTIONS = {"internal_segment_bytes": 2000}


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("/nothing/is/here")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def a_full_directory(path: Path) -> None:
    path.mkdir()
    (path / "inside").touch()


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


MISFITS = [a_link_to_nothing, a_link_to_itself, Path.mkdir, a_full_directory, os.mkfifo, a_socket]


def harmed(folder: Path, misfit: Callable[[Path], object], which: int, suffix: str, *, clean: bool) -> None:
    """A log of seven segments, of which one has lost a file, and something else has its name."""
    directory = local_directory(folder)
    log = new_log(directory, **OPTIONS)
    for at in range(COUNT):
        put(log, a_batch(b"v" * 500, timestamp=T0 + at), leader_epoch=4)
        log.sync_now()
    log.set_high_watermark(log.end_offset)
    path = Path(log.segments[which].path(suffix))
    directory.checkpoint_high_watermarks()
    directory.checkpoint_recovery_points()
    directory.close(clean=clean)
    path.unlink(missing_ok=True)
    misfit(path)


@pytest.mark.parametrize("misfit", MISFITS)
@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize("clean", [True, False])
def test_no_file_in_place_of_a_segment_costs_its_offsets(
    tmp_path: Path, misfit: Callable[[Path], object], which: int, clean: bool
) -> None:
    harmed(tmp_path, misfit, which, LOG, clean=clean)
    directory = local_directory(tmp_path)
    if which == -1 and not clean:
        with pytest.raises(OSError, match="is not a regular file, and would be the last segment"):
            only_log(directory, **OPTIONS)
        return
    log = only_log(directory, **OPTIONS)
    found, refused = read_all(log)
    assert set(found) | set(refused) == set(range(COUNT)) and 0 < len(refused) <= PER_SEGMENT
    assert log.recovered.remarks and put(log, a_batch(b"new"), leader_epoch=5).base_offset == COUNT
    assert [one.size_bytes for one in strays(directory.disk, directory.path)] == [0]


@pytest.mark.parametrize("misfit", MISFITS)
@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("clean", [True, False])
def test_no_file_in_place_of_an_index_costs_nothing(
    tmp_path: Path, misfit: Callable[[Path], object], suffix: str, clean: bool
) -> None:
    for which in (0, 2, -1):
        folder = tmp_path / str(which)
        harmed(folder, misfit, which, suffix, clean=clean)
        found, refused = read_all(only_log(local_directory(folder), **OPTIONS))
        assert set(found) == set(range(COUNT)) and not refused


def test_a_segment_that_lies_elsewhere_behind_a_link_is_read(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.log"
    folder = tmp_path / "data"

    def moved(path: Path) -> None:
        path.symlink_to(elsewhere)

    directory = local_directory(folder)
    log = new_log(directory, **OPTIONS)
    for at in range(COUNT):
        put(log, a_batch(b"v" * 500, timestamp=T0 + at), leader_epoch=4)
    path = Path(log.segments[2].path(LOG))
    directory.close(clean=True)
    path.rename(elsewhere)
    moved(path)
    found, refused = read_all(only_log(local_directory(folder), **OPTIONS))
    assert set(found) == set(range(COUNT)) and not refused
