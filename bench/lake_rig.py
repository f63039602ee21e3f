"""Topics for measurements of the loader, and samples of the memory of its processes: Spark's JVM and Python workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.brokers import ROOT, OttlaBroker, family
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.records.builder import build_batch
from ottla.records.reader import Record

MB = 1_000_000
VALUE_BYTES = 200
RECORD_BYTES = 214
"""A key of 14 bytes beside the value; bytes of topics are counted so."""
BATCH_RECORDS = 4_000
DIFFERENT_BATCHES = 32
TIME_MS = 1_700_000_000_000
LOOK_SECONDS = 0.25
"""The interval between two samples of memory."""


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run our broker with its data in a folder; yield its address."""
    broker = OttlaBroker(folder / "broker")
    broker.start()
    try:
        yield broker.address
    finally:
        broker.stop()


def fill(address: str, topic: str, shares: Sequence[int]) -> int:
    """Make a topic with about `shares` records in its partitions; return their number.

    Values are random hexadecimal digits, which compression halves.
    """
    Admin(address).create_topic(topic, len(shares))
    batches = [
        build_batch(
            [
                Record(0, TIME_MS + at, b"key-%010d" % at, os.urandom(VALUE_BYTES // 2).hex().encode())
                for at in range(BATCH_RECORDS)
            ]
        )
        for _ in range(DIFFERENT_BATCHES)
    ]
    sent = 0
    with Cluster(address) as cluster:
        for partition, share in enumerate(shares):
            for number in range(share // BATCH_RECORDS):
                cluster.produce(topic, partition, batches[(partition + number) % DIFFERENT_BATCHES])
            if rest := share % BATCH_RECORDS:
                short = [Record(0, TIME_MS, b"key-%010d" % at, b"x" * VALUE_BYTES) for at in range(rest)]
                cluster.produce(topic, partition, build_batch(short))
            sent += share
    return sent


@dataclass(frozen=True, slots=True)
class Look:
    """Resident memory at one moment, in 10^6 bytes."""

    seconds: float
    java: float
    python: float
    """All Python processes of Spark's, shared pages counted once."""
    workers: int
    largest: float
    """The largest Python process."""
    rounds: int
    """Rounds that the load had reported by then."""

    @property
    def all(self) -> float:
        return self.java + self.python


@dataclass(slots=True)
class Watch:
    """The samples of a load's memory."""

    looks: list[Look] = field(default_factory=list)
    printed: str = ""
    status: int = 0
    seconds: float = 0.0


def watched_load(arguments: Sequence[str], log: Path) -> Watch:
    """Run `ottla lake load` to its end, and sample the memory of its processes meanwhile."""
    watch, began = Watch(), time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "lake", "load", *arguments],
            cwd=ROOT, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    ended = threading.Event()

    def look_on() -> None:
        while not ended.wait(LOOK_SECONDS):
            watch.looks.append(_look(process.pid, time.monotonic() - began, rounds_told(log.read_text())))

    thread = threading.Thread(target=look_on, daemon=True)
    thread.start()
    watch.status = process.wait()
    ended.set()
    thread.join()
    watch.seconds, watch.printed = time.monotonic() - began, log.read_text()
    return watch


def rounds_told(printed: str) -> int:
    return len(re.findall(r"^round \d+: ", printed, re.MULTILINE))


def _look(pid: int, seconds: float, rounds: int) -> Look:
    java, python = 0.0, []
    for each in family(pid)[1:]:
        try:
            name = Path(f"/proc/{each}/comm").read_text().strip()
            share = proportional_mb(each)
        except OSError:
            continue
        if name == "java":
            java += share
        elif name.startswith("python"):
            python.append(share)
    return Look(seconds, java, sum(python), len(python), max(python, default=0.0), rounds)


def proportional_mb(pid: int) -> float:
    """Resident memory; a page that n processes share counts as 1/n."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MB
    return 0.0
