"""Measures what an append and a hot read cost in Python without the system call: `python bench/append.py`.

The same batch is appended to a log on a real disk and to one whose write does nothing; the second is the cost of the
code. Budget (rules E): about 6 us an append of one record, 5 us a read of the hot tail.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

from ottla.config.topic import TopicConfig
from ottla.kernel.seams import Buffer
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.storage.disk.local import LocalDisk, LocalFile
from ottla.storage.log import Log
from ottla.storage.values import LogRead

ROUNDS, APPENDS = 7, 20_000
DAY_MS = 86_400_000


class _NoWrite(LocalFile):
    """A file that counts bytes and writes none, so that only the code around the call is measured."""

    __slots__ = ()

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        wanted = 0
        for part in parts:
            wanted += len(part)


def _log(directory: str, config: TopicConfig) -> Log:
    return Log.create(
        LocalDisk(),
        directory,
        topic="t",
        partition=0,
        topic_id=bytes(16),
        config=config,
        wall_ms=0,
        producer_expiration_ms=DAY_MS,
        on_synced=lambda _: None,
    )


def _microseconds(work: Callable[[], None], count: int) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) / count * 1e6)
    return statistics.median(times)


def _appends(log: Log, frames: list[bytes]) -> Callable[[], None]:
    def work() -> None:
        append = log.append
        for frame in frames:
            append(Batch(frame), leader_epoch=1, wall_ms=1000)

    return work


def _reads(log: Log) -> Callable[[], None]:
    def work() -> None:
        read, end = log.read, log.end_offset
        for at in range(APPENDS):
            found = read(end - 1 - at % 1000, 1 << 20, limit_offset=end)
            assert isinstance(found, LogRead)
            found.release()

    return work


def _frames(producer: bool) -> list[bytes]:
    record = Record(0, 1000, None, b"v" * 200)
    if not producer:
        return [build_batch([record])] * APPENDS
    return [build_batch([record], producer_id=1, producer_epoch=0, base_sequence=at) for at in range(APPENDS)]


def _only_headers(frames: list[bytes]) -> Callable[[], None]:
    def work() -> None:
        for frame in frames:
            Batch(frame)

    return work


def main() -> None:
    directory = tempfile.mkdtemp(prefix="ottla-bench-")
    try:
        plain, idempotent = _frames(False), _frames(True)
        header = _microseconds(_only_headers(plain), APPENDS)
        print(f"reading the header              {header:6.2f} us")
        for name, frames, config in (
            ("append, one record", plain, TopicConfig()),
            ("append, idempotent", idempotent, TopicConfig()),
            ("append, LogAppendTime", plain, TopicConfig(message_timestamp_type="LogAppendTime")),
        ):
            for kind in ("disk", "no write"):
                log = _log(f"{directory}/{name}-{kind}", config)
                if kind == "no write":
                    segment = log.active
                    real = segment.file
                    segment._file = _NoWrite(real.path, real.fileno())
                cost = _microseconds(_fresh(log, frames), APPENDS) - header
                print(f"{name:22} {kind:8} {cost:6.2f} us")
                if name == "append, one record" and kind == "disk":
                    print(f"{'read, hot tail':22} {'':8} {_microseconds(_reads(log), APPENDS):6.2f} us")
    finally:
        shutil.rmtree(directory)


def _fresh(log: Log, frames: list[bytes]) -> Callable[[], None]:
    """Prepare a round with new sequence numbers: otherwise every round after the first would be duplicates."""
    work = _appends(log, frames)

    def again() -> None:
        log.producers.clear()
        work()

    return again


if __name__ == "__main__":
    main()
