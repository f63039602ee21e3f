"""Appends numbered records, and prints after each sync how far the log is on disk, until it is killed."""

from __future__ import annotations

import sys

from ottla.config.topic import TopicConfig
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.disk.local import LocalDisk

T0 = 1_700_000_000_000


def main() -> None:
    disk = LocalDisk()
    directory = LogDirectory.open(
        disk, sys.argv[1], cluster_id="c", node_id=1, new_directory_id="A" * 22, lock=disk.lock
    )
    options = {
        "config": TopicConfig(internal_segment_bytes=20_000),
        "wall_ms": T0,
        "producer_expiration_ms": 86_400_000,
        "on_synced": lambda _: None,
    }
    if directory.found:
        log = directory.open_log(directory.found[0], **options)  # type: ignore[arg-type]
    else:
        log = directory.create_log("t", 0, bytes(16), **options)  # type: ignore[arg-type]
    while True:
        for _ in range(7):
            body = build_batch([Record(0, T0, None, b"%d" % log.end_offset)])
            log.append(Batch(body), leader_epoch=0, wall_ms=T0)
        work = log.begin_sync()
        assert work is not None
        for file in work.files:
            file.sync()
        for path in work.directories:
            disk.sync_directory(path)
        log.end_sync(work, None)
        directory.checkpoint_recovery_points()
        print(log.synced_offset, flush=True)


if __name__ == "__main__":
    main()
