"""An overlay behaves like a real disk, and leaves the real one unchanged."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.descriptors import descriptors

from ottla.kernel.seams import Disk
from ottla.storage.disk.local import LocalDisk
from ottla.storage.disk.overlay import OverlayDisk

NAMES = ("a", "b", "folder", "folder/a", "folder/b", "other", "other/a")


def files(root: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
    }


def fill(root: Path) -> None:
    (root / "folder").mkdir(parents=True)
    (root / "a").write_bytes(b"0123456789")
    (root / "folder" / "a").write_bytes(b"abcdefghij")
    (root / "folder" / "b").write_bytes(b"")


def seen(disk: Disk, root: str) -> dict[str, bytes | None]:
    """All files of a disk."""
    found: dict[str, bytes | None] = {}
    for name in disk.list(root):
        path = f"{root}/{name}"
        if disk.is_directory(path):
            found[name] = None
            found |= {f"{name}/{inner}": body for inner, body in seen(disk, path).items()}
        else:
            found[name] = disk.read(path)
            assert disk.file_size(path) == len(found[name] or b"")
        assert disk.exists(path)
    return found


def act(disk: Disk, root: str, random: Random) -> str:
    """Make one random call; return its result."""
    path, other = f"{root}/{random.choice(NAMES)}", f"{root}/{random.choice(NAMES)}"
    call = random.choice(("write", "truncate", "rename", "remove", "remove_tree", "make", "read"))
    position, length, letter = random.randrange(14), random.randrange(6), random.choice(b"xyz")
    try:
        if call == "rename":
            if not path.startswith(other) and not other.startswith(path):
                disk.rename(path, other)
        elif call == "remove":
            disk.remove(path)
        elif call == "remove_tree":
            if disk.is_directory(path):
                disk.remove_tree(path)
        elif call == "make":
            if not disk.exists(path):
                disk.make_directory(path)
        elif call == "read":
            return repr(disk.read(path))
        else:
            file = disk.open(path, create=random.random() < 0.5)
            if call == "write":
                file.write_at(position, [bytes([letter]) * length, b"!"])
            else:
                file.truncate(position)
            said = f"{file.size()} {file.read_at(position // 2, length + 4)!r}"
            file.release()
            return said
    except OSError:
        return "failed"
    return "done"


@pytest.mark.parametrize("seed", range(150))
def test_an_overlay_shows_what_a_real_disk_would_after_any_calls(tmp_path: Path, seed: int) -> None:
    real, under = tmp_path / "real", tmp_path / "under"
    fill(real)
    fill(under)
    before, overlay, disk = files(under), OverlayDisk(), LocalDisk()
    ours, theirs = Random(seed), Random(seed)
    for _ in range(40):
        assert act(overlay, str(under), ours) == act(disk, str(real), theirs)
        assert seen(overlay, str(under)) == seen(disk, str(real))
    assert files(under) == before


def test_bytes_that_nobody_changed_are_read_from_the_real_file(tmp_path: Path) -> None:
    fill(tmp_path)
    overlay, path = OverlayDisk(), str(tmp_path / "a")
    file = overlay.open(path)
    file.truncate(8)
    file.write_at(7, [b"xyz"])
    file.release()
    again = overlay.open(path)
    assert (again.read_at(0, 20), again.read_at(5, 3), again.read_at(8, 20)) == (b"0123456xyz", b"56x", b"yz")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    fill(tmp_path)
    overlay = OverlayDisk()
    for name in ("a", "folder/a"):
        file = overlay.open(str(tmp_path / name))
        file.truncate(3)
        file.release()
    assert overlay.read(str(tmp_path / "a")) == b"012"
    assert [target for target in descriptors() if target.startswith(str(tmp_path))] == []


def test_a_file_that_may_not_be_written_can_be_read(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "a").chmod(0o400)
    assert OverlayDisk().read(str(tmp_path / "a")) == b"0123456789"
