"""One record at a time: sent, acknowledged, then the next."""

from __future__ import annotations

from functools import partial

from bench.lines import Figure, Figures, Line
from bench.rig import Rig

RECORDS = 5_000


def measure(rig: Rig, contestant: str, *, acks: str) -> Figures:
    """One run into a topic of its own."""
    with rig.topic(contestant) as topic:
        return rig.drive(
            contestant, "latency", topic=topic, records=rig.sized(RECORDS), warmup=rig.sized(1_000), acks=acks
        )


def line(acks: str) -> Line:
    run = partial(measure, acks=acks)
    return Line(
        f"latency-acks-{acks}",
        (
            Figure("p50_us", f"one record, acks={acks}, p50", "µs", more_is_better=False),
            Figure("p99_us", f"one record, acks={acks}, p99", "µs", more_is_better=False),
        ),
        run,
        warm=lambda rig, contestant: run(rig, contestant) and None,
        order=40,
    )


LINES = [line("1"), line("all")]
