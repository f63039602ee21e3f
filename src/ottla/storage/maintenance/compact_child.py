"""One compaction away from the broker's loop: a plan on stdin, its result on stdout.

`python -m ottla.storage.maintenance.compact_child`.

The broker starts it by exec with closed descriptors (a forked child would keep the directory's lock). It touches only
`.cleaned` files; if it dies, or the broker does, they are removed.
"""

from __future__ import annotations

import os
import sys
import time

from ottla.storage.disk.local import LocalDisk
from ottla.storage.maintenance.cleaning import CleanedBytes, Damaged, clean
from ottla.storage.maintenance.compaction import CompactionPlan

DAMAGED_STATUS = 3
"""Exit status where the log has a bad batch: it is not tried again before something changes."""
_SLICE_SECONDS = 0.1


def command(max_bytes_per_second: float) -> list[str]:
    """The command to exec; log.cleaner.io.max.bytes.per.second is the throttle."""
    return [sys.executable, "-m", "ottla.storage.maintenance.compact_child", repr(max_bytes_per_second)]


class CompactionThrottle:
    """Keeps the average rate, in steps of a tenth of a second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._began = time.monotonic()
        self._bytes = 0

    def took(self, count: int) -> None:
        self._bytes += count
        ahead = self._bytes / self._bytes_per_second - (time.monotonic() - self._began)
        if ahead > _SLICE_SECONDS:
            time.sleep(ahead)


def main(arguments: list[str]) -> int:
    os.nice(10)
    throttle = CompactionThrottle(float(arguments[0]) if arguments else float("inf"))
    plan = CompactionPlan.decoded(sys.stdin.buffer.read())
    try:
        for step in clean(LocalDisk(), plan):
            if isinstance(step, CleanedBytes):
                throttle.took(step.bytes)
            else:
                sys.stdout.buffer.write(step.encoded())
                sys.stdout.buffer.flush()
    except Damaged as fault:
        print(fault, file=sys.stderr)
        return DAMAGED_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
