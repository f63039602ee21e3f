"""A file system in an image file, whose power a test can cut. Needs root on Linux."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NO_IMAGES = "needs to be root, with loop devices and the right to mount"
"""The reason for skipping tests that need such a disk if `can_mount` is False."""
SHUTDOWN, WITHOUT_FLUSHING_THE_JOURNAL = 0x8004587D, 2


def can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not os.path.exists("/dev/loop-control"):
        return False
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return probe.returncode == 0


@contextlib.contextmanager
def mounted(at: Path, *arguments: str) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", *arguments, str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


class ImageDisk:
    """An ext4 file system at `mount`; `cut` takes its power, then `unmount` and `mount_again` bring it back.

    After a cut nothing is written any more, and unsynced data is gone after the next mount. ext4 lets a sync that is
    under way at that moment return as if it had succeeded, so a process that counts synced records must be stopped
    before the cut, or only its earlier output may be counted.
    """

    def __init__(self, image: Path, mount: Path, megabytes: int = 64) -> None:
        self.image = image
        self.mount = mount
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-qF", "-m", "0", str(image)], check=True)
        mount.mkdir(exist_ok=True)
        self.mount_again()

    def __enter__(self) -> ImageDisk:
        return self

    def __exit__(self, *exception: object) -> None:
        subprocess.run(["umount", "-l", str(self.mount)], capture_output=True, check=False)

    def mount_again(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.mount)], check=True)

    @property
    def device(self) -> str:
        """MAJOR:MINOR of the loop device below the file system."""
        number = os.stat(self.mount).st_dev
        return f"{os.major(number)}:{os.minor(number)}"

    def cut(self) -> None:
        descriptor = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING_THE_JOURNAL))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Unmount; retry while it is busy, as the kernel closes files of a killed process with a delay."""
        deadline = time.monotonic() + 300
        while True:
            done = subprocess.run(["umount", str(self.mount)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.02)
