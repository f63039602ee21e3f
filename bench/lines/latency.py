"""Times of single records: acknowledged one by one, and end to end while others are on their way.

The broker that is not measured stands still meanwhile (`Rig.alone`).
"""

from __future__ import annotations

import os
import time
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
    with rig.topic(contestant) as topic, rig.alone(contestant):
        return rig.drive(
            contestant, "latency", topic=topic, records=rig.sized(RECORDS), warmup=rig.sized(1_000), acks=acks
        )


def measure_steady(rig: Rig, contestant: str, *, rate: int) -> Figures:
    """Records at a steady rate over all partitions, each from the moment at which it was due to its arrival."""
    with rig.topic(contestant, PARTITIONS) as topic, rig.alone(contestant):
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
