"""Measures a clean start with many partitions, beside another source tree: one after the other, round by round.

    python -m bench.starts                            2,000 partitions that hold 1 GB, this tree alone
    python -m bench.starts --against /path/to/tree    each round also starts that tree, in a folder of its own
    python -m bench.starts --gigabytes 10 --rounds 30 --folder DIR
    python -m bench.starts --profile                  one more start under cProfile, with its costliest functions

A folder is filled once by its own tree, and kept if `--folder` names it. Each round starts the broker, waits until it
answers Metadata, which it does once all its logs are open and led, and stops it cleanly. Ratios (this tree's time by
the other's) are taken within a round: the machine's speed drifts, and two starts in a row share it.
"""

from __future__ import annotations

import argparse
import os
import pstats
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.ports import free_port

from bench.brokers import ROOT, answers_metadata, process_cpu_seconds

WITHIN_S = 300.0
_TOPICS = 20
_RECORD_BYTES = 50_000
_SHOWN = 40


class Start(NamedTuple):
    """The time that one start took until the broker answered."""

    seconds: float
    cpu_seconds: float


class Tree:
    """A source tree and the folder of its broker."""

    def __init__(self, name: str, source: Path, folder: Path) -> None:
        self.name = name
        self.source = source
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, *, python: Sequence[str] = ()) -> Start:
        """Start the broker; return once it answers Metadata."""
        command = [sys.executable, *python, "-m", "ottla", "start", "--data", str(self.folder / "data")]
        command += ["--port", str(self.port), "--http-port", "0"]
        environment = os.environ | {"PYTHONPATH": str(self.source / "src")}
        begin = time.monotonic()
        with open(self.folder / "out.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        while not answers_metadata(self.port):
            if self.process.poll() is not None or time.monotonic() > begin + WITHIN_S:
                raise SystemExit(f"{self.name}: no start; see {self.folder / 'out.log'}")
            time.sleep(0.005)
        return Start(time.monotonic() - begin, process_cpu_seconds(self.process.pid))

    def stop(self) -> None:
        """Stop the broker cleanly."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(WITHIN_S)
            self.process = None

    def fill(self, partitions: int, gigabytes: float) -> None:
        """Make topics and records if the folder has none yet."""
        if (self.folder / "filled").exists():
            return
        self.start()
        servers = {"bootstrap.servers": f"127.0.0.1:{self.port}"}
        each = -(-partitions // _TOPICS)
        names = [f"many-{number:02}" for number in range(_TOPICS)]
        admin = AdminClient(servers)
        for made in admin.create_topics([NewTopic(name, each, 1) for name in names]).values():
            made.result(WITHIN_S)
        producer = Producer({**servers, "linger.ms": 5, "batch.size": 1_000_000, "compression.type": "none"})
        value = os.urandom(_RECORD_BYTES)
        for _ in range(max(1, int(gigabytes * 1e9 / _RECORD_BYTES / each / _TOPICS))):
            for name in names:
                for partition in range(each):
                    while True:
                        try:
                            producer.produce(name, value, partition=partition)
                            break
                        except BufferError:
                            producer.poll(1)
                producer.poll(0)
        if left := producer.flush(WITHIN_S):
            raise SystemExit(f"{left} records were not taken")
        self.stop()
        (self.folder / "filled").touch()

    def profile(self) -> None:
        """Start once under cProfile, and stop."""
        where = self.folder / "start.prof"
        self.start(python=["-m", "cProfile", "-o", str(where)])
        self.stop()
        pstats.Stats(str(where)).sort_stats("tottime").print_stats(_SHOWN)


def measure(trees: Sequence[Tree], rounds: int) -> list[list[Start]]:
    """The starts of each tree, without the first of each, which warms the page cache."""
    found: list[list[Start]] = [[] for _ in trees]
    for number in range(rounds + 1):
        for at in range(len(trees)) if number % 2 else reversed(range(len(trees))):
            took = trees[at].start()
            trees[at].stop()
            if number:
                found[at].append(took)
    return found


def lines(trees: Sequence[Tree], found: Sequence[Sequence[Start]]) -> list[str]:
    """A line for each tree, and one for the ratio if there are two."""
    told = []
    for tree, starts in zip(trees, found, strict=True):
        seconds, cpu = (statistics.median(values) for values in zip(*starts, strict=True))
        told.append(f"{tree.name:8} {seconds:6.3f} s, {cpu:6.3f} s of processor, median of {len(starts)} starts")
    if len(trees) == 2:
        for name in Start._fields:
            ratios = sorted(getattr(a, name) / getattr(b, name) for a, b in zip(*found, strict=True))
            low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
            middle = statistics.median(ratios)
            told.append(f"ratio of {name}: median {middle:.3f}, half of them {low:.3f} to {high:.3f}")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--against", type=Path, help="another source tree; pure Python unless its module is built")
    parser.add_argument("--folder", type=Path, help="keep the brokers' folders there")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="starts-") as temporary:
        folder = options.folder or Path(temporary)
        trees = [Tree("this", ROOT, folder / "this")]
        if options.against is not None:
            trees.append(Tree("other", options.against.resolve(), folder / "other"))
        try:
            for tree in trees:
                tree.fill(options.partitions, options.gigabytes)
            if options.rounds:
                print("\n".join(lines(trees, measure(trees, options.rounds))))
            if options.profile:
                trees[0].profile()
        finally:
            for tree in trees:
                tree.stop()


if __name__ == "__main__":
    main()
