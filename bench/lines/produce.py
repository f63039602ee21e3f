"""Producing 200-byte records: batches of about 1 MB, of 50 records and of one; `acks=1` and `acks=all`."""

from __future__ import annotations

from functools import partial

from bench.lines import Figure, Figures, Line
from bench.rig import Rig

# Records in a batch (0: as many as fit into 1 MB), records in a run, the name, the wanted ratio.
SHAPES = ((0, 3_000_000, "1MB", 1.7), (50, 1_200_000, "50", 2.0), (1, 60_000, "1", 4.0))


def measure(rig: Rig, contestant: str, *, batch: int, records: int, acks: str) -> Figures:
    """One run into a topic of its own; the driver's own warm-up is a tenth of it."""
    records = rig.sized(records)
    with rig.topic(contestant) as topic:
        return rig.drive(
            contestant, "produce", topic=topic, records=records, warmup=records // 10, batch=batch, acks=acks
        )


def line(batch: int, records: int, name: str, wanted: float, acks: str) -> Line:
    run = partial(measure, batch=batch, records=records, acks=acks)
    return Line(
        f"produce-{name}-acks-{acks}",
        (
            Figure("records_per_second", f"produce, {name} a batch, acks={acks}", "records/s", at_least=wanted),
            Figure("broker_cpu_per_million", "  broker CPU per million", "s", more_is_better=False),
        ),
        run,
        warm=lambda rig, contestant: [run(rig, contestant) for _ in range(1 if rig.quick else 2)] and None,
        order=20 + [shape[0] for shape in SHAPES].index(batch),
    )


LINES = [line(*shape, acks) for shape in SHAPES for acks in ("1", "all")]
