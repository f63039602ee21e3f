"""Checks closed segments away from the broker's loop: segments on stdin, findings on stdout.

`python -m ottla.storage.maintenance.scrub_child`.

The broker starts it by exec with closed descriptors (a forked child would keep the directory's lock). It only reads.
"""

from __future__ import annotations

import os
import sys

from ottla.kernel.seams import OpenFile
from ottla.storage.disk.local import LocalDisk
from ottla.storage.maintenance.compact_child import CompactionThrottle
from ottla.storage.maintenance.scrub import ScrubFinding, check_all, decode_segments, encode_findings


def command(max_bytes_per_second: float) -> list[str]:
    """The command to exec; ottla.scrub.max.bytes.per.second is the throttle."""
    return [sys.executable, "-m", "ottla.storage.maintenance.scrub_child", repr(max_bytes_per_second)]


class UncachedDisk(LocalDisk):
    """Reads from the disk: pages that are in memory already are dropped first, as they hide decay on the disk."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        file = super().open(path, create=create)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file


def main(arguments: list[str]) -> int:
    os.nice(10)
    throttle = CompactionThrottle(float(arguments[0]) if arguments else float("inf"))
    segments = decode_segments(sys.stdin.buffer.read())
    findings: list[ScrubFinding] = []
    for step in check_all(UncachedDisk(), segments):
        if isinstance(step, ScrubFinding):
            findings.append(step)
        else:
            throttle.took(step.bytes)
    sys.stdout.buffer.write(encode_findings(findings))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
