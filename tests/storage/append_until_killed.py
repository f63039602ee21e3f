"""Appends numbered records, and prints after each sync how far the log is on disk, until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from log_desk import a_batch, local_directory, new_log, only_log, put, sync

SEGMENT_BYTES = 20_000


def main() -> None:
    directory = local_directory(Path(sys.argv[1]))
    make_or_open = only_log if directory.found else new_log
    log = make_or_open(directory, internal_segment_bytes=SEGMENT_BYTES)
    while True:
        for _ in range(7):
            put(log, a_batch(b"%d" % log.end_offset))
        sync(log)
        directory.checkpoint_recovery_points()
        print(log.synced_offset, flush=True)


if __name__ == "__main__":
    main()
