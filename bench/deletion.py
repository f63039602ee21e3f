"""Measures what the deletion of a large segment costs others: `python -m bench.deletion`.

A thread appends 270 bytes to one file and syncs it, again and again, while another file of 1 GiB is removed: in one go,
and with its space given back step by step (server/freed_space.py). Told are the time that the remover waits, which is
the time for which a broker's loop would stand still, and the longest sync meanwhile.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from bench.brokers import ROOT
from ottla.server.freed_space import FreedSpace
from ottla.storage.disk.local import LocalDisk

ROUNDS = 5
MIB = 1 << 20
SIZE_MIB = 1024
BEFORE_S, AFTER_S = 1.0, 3.0


class Syncs:
    """A thread that writes and syncs without pause: the longest sync, in seconds."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sync_on)
        self.longest_s = 0.0
        self._thread.start()

    def _sync_on(self) -> None:
        while not self._ended.is_set():
            os.write(self._descriptor, bytes(270))
            began = time.perf_counter()
            os.fdatasync(self._descriptor)
            self.longest_s = max(self.longest_s, time.perf_counter() - began)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        os.close(self._descriptor)


def measure(folder: Path, disk: LocalDisk) -> tuple[float, float, float]:
    """The longest sync before, the time of the removal, and the longest sync from then on; in seconds."""
    large = folder / "large"
    with large.open("wb", buffering=0) as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(MIB))
    os.sync()
    syncs = Syncs(folder / "log")
    try:
        time.sleep(BEFORE_S)
        before_s, syncs.longest_s = syncs.longest_s, 0.0
        began = time.perf_counter()
        disk.remove(str(large))
        took_s = time.perf_counter() - began
        time.sleep(AFTER_S)
        return before_s, took_s, syncs.longest_s
    finally:
        syncs.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench", help="on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="deletion-", dir=options.folder))
    freed = FreedSpace()
    ways = {"in one go": LocalDisk(), "step by step": LocalDisk(freed.take)}
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    try:
        for _ in range(options.rounds):
            for name, disk in ways.items():
                runs[name].append(measure(folder, disk))
    finally:
        freed.stop()
        shutil.rmtree(folder)
    for name, found in runs.items():
        before, took, after = (statistics.median(column) * 1000 for column in zip(*found, strict=True))
        print(f"{name:13} removal {took:6.1f} ms, longest sync {after:5.1f} ms (before: {before:.1f} ms)")


if __name__ == "__main__":
    main()
