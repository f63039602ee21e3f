"""Producing 200-byte records with `acks=all` to three brokers, a replica on each and min.insync.replicas=2."""

from __future__ import annotations

from functools import partial

from bench.lines import Figure, Figures, Line
from bench.rig import Rig

CONTESTANTS = ("ottla-cluster", "kafka-cluster")

# Records in a batch (0: as many as fit into 1 MB), records in a run, the name, the wanted ratio.
SHAPES = ((0, 1_500_000, "1MB", 1.0), (50, 500_000, "50", 2.0))


def measure(rig: Rig, contestant: str, *, batch: int, records: int) -> Figures:
    """One run into a topic of its own; the driver's own warm-up is a tenth of it."""
    records = rig.sized(records)
    with rig.topic(contestant) as topic:
        return rig.drive(
            contestant, "produce", topic=topic, records=records, warmup=records // 10, batch=batch, acks="all"
        )


def line(batch: int, records: int, name: str, wanted: float) -> Line:
    run = partial(measure, batch=batch, records=records)
    title = f"3 brokers, {name} a batch, acks=all"
    return Line(
        f"replicated-{name}",
        (
            Figure("records_per_second", title, "records/s", at_least=wanted),
            Figure("broker_cpu_per_million", "  CPU of all three per million", "s", more_is_better=False),
            Figure("broker_resident_mb", "  memory of all three", "MB", more_is_better=False),
        ),
        run,
        warm=lambda rig, contestant: [run(rig, contestant) for _ in range(1 if rig.quick else 2)] and None,
        finish=finish,
        contestants=CONTESTANTS,
        order=65,
    )


def finish(rig: Rig) -> None:
    """Stop the clusters, so that later lines have the machine to themselves."""
    rig.stop(*CONTESTANTS)


LINES = [line(*shape) for shape in SHAPES]
