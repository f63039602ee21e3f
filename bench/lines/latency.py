"""Times of single records: acknowledged one by one, and end to end while others are on their way.

A core without work halts, and a virtual machine wakes it by way of its host. To show how much of the time of a single
record that is, the line is also measured on cores that are kept awake.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from statistics import median

from bench.lines import Figure, Figures, Line
from bench.rig import Rig

RECORDS = 5_000
PARTITIONS = 16
STEADY_SECONDS = 10
SYNCS = 1_000
GRACE_US = 100
"""An answer after `fdatasync` may take so much longer than the disk itself."""


def measure(rig: Rig, contestant: str, *, acks: str) -> Figures:
    """One run into a topic of its own: sent, acknowledged, then the next."""
    with rig.topic(contestant) as topic:
        return rig.drive(
            contestant, "latency", topic=topic, records=rig.sized(RECORDS), warmup=rig.sized(1_000), acks=acks
        )


def measure_awake(rig: Rig, contestant: str) -> Figures:
    """The same at acks=1, on cores that do not halt meanwhile."""
    rig.broker(contestant)
    with awake_cores():
        return measure(rig, contestant, acks="1")


_LOOP = """
import os, sys
core, parent = map(int, sys.argv[1:])
os.sched_setaffinity(0, {core})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
print("awake", flush=True)
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def awake_cores() -> Iterator[None]:
    """Keep every core busy with a loop that runs where nothing else does: its priority is below all others'."""
    with contextlib.ExitStack() as ending:
        for core in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-c", _LOOP, str(core), str(os.getpid())]
            loop = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            ending.callback(loop.kill)
            assert loop.stdout is not None
            loop.stdout.readline()
        yield


def measure_steady(rig: Rig, contestant: str, *, rate: int) -> Figures:
    """Records at a steady rate over all partitions, each from the moment at which it was due to its arrival."""
    with rig.topic(contestant, PARTITIONS) as topic:
        return rig.drive(
            contestant, "steady", topic=topic, records=rig.sized(rate * STEADY_SECONDS), warmup=rate, rate=rate,
            partitions=PARTITIONS, linger=1, batch=0, acks="all",
        )  # fmt: skip


def measure_beside_disk(rig: Rig, side: str) -> Figures:
    """Ours at acks=all; or what it may take: ours at acks=1, the disk's own `fdatasync`, and a little."""
    if side == "ottla":
        return measure(rig, "ottla", acks="all")
    return {"p50_us": measure(rig, "ottla", acks="1")["p50_us"] + fdatasync_us(rig) + GRACE_US}


def fdatasync_us(rig: Rig) -> float:
    """The median time of `fdatasync` after 270 bytes at the end of a file, where the brokers keep theirs."""
    path = rig.folder / "fdatasync"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    times: list[float] = []
    try:
        for _ in range(rig.sized(SYNCS)):
            os.write(descriptor, b"x" * 270)
            begin = time.perf_counter()
            os.fdatasync(descriptor)
            times.append((time.perf_counter() - begin) * 1e6)
    finally:
        os.close(descriptor)
        path.unlink()
    return median(times)


def line(acks: str, at_most: float | None) -> Line:
    run = partial(measure, acks=acks)
    return Line(
        f"latency-acks-{acks}",
        (
            Figure("p50_us", f"one record, acks={acks}, p50", "µs", more_is_better=False, at_most=at_most),
            Figure("p99_us", f"one record, acks={acks}, p99", "µs", more_is_better=False),
        ),
        run,
        warm=lambda rig, contestant: run(rig, contestant) and None,
        order=40,
    )


def steady_line(rate: int, wanted: tuple[float, float, float]) -> Line:
    keys = (("p50_us", "p50"), ("p99_us", "p99"), ("p999_us", "p99.9"))
    run = partial(measure_steady, rate=rate)
    return Line(
        f"end-to-end-{rate}",
        tuple(
            Figure(key, f"end to end, {rate:,}/s, {title}", "µs", more_is_better=False, at_most=most)
            for (key, title), most in zip(keys, wanted, strict=True)
        ),
        run,
        warm=lambda rig, contestant: run(rig, contestant) and None,
        order=42,
    )


LINES = [
    line("1", 1.0),
    line("all", None),
    Line(
        "latency-awake",
        (
            Figure("p50_us", "one record, acks=1, cores kept awake, p50", "µs", more_is_better=False, at_most=1.0),
            Figure("p99_us", "one record, acks=1, cores kept awake, p99", "µs", more_is_better=False),
        ),
        measure_awake,
        warm=lambda rig, contestant: measure_awake(rig, contestant) and None,
        order=40,
    ),
    Line(
        "latency-beside-disk",
        (Figure("p50_us", "one record, acks=all, beside the disk", "µs", more_is_better=False, at_most=1.0),),
        measure_beside_disk,
        warm=lambda rig, side: measure_beside_disk(rig, side) and None,
        contestants=("ottla", "acks=1 and fdatasync"),
        order=41,
    ),
    steady_line(2_000, (1.5, 1.0, 1.0)),
    steady_line(20_000, (0.2, 0.2, 0.2)),
]
