"""Producing and consuming 200-byte records in batches of about 1 MB, over TLS with the same key on both sides."""

from __future__ import annotations

from functools import partial

from bench.lines import Figure, Line, consume, produce
from bench.rig import Rig

CONTESTANTS = ("ottla-tls", "kafka-tls")
RECORDS = 2_000_000
produced = partial(produce.measure, batch=0, records=RECORDS, acks="1")


def finish(rig: Rig) -> None:
    """Delete the topics and end the brokers."""
    consume.finish(rig)
    rig.stop(*CONTESTANTS)


def figures(title: str, at_most: float) -> tuple[Figure, Figure]:
    return (
        Figure("records_per_second", title, "records/s", at_least=1.0),
        Figure("broker_cpu_per_million", "  broker CPU per million", "s", more_is_better=False, at_most=at_most),
    )


LINES = [
    Line(
        "produce-tls",
        figures("produce over TLS", 0.75),
        produced,
        warm=lambda rig, contestant: produced(rig, contestant) and None,
        contestants=CONTESTANTS,
        finish=finish,
        order=34,
    ),
    Line(
        "consume-tls",
        figures("consume over TLS", 0.6),
        consume.measure,
        warm=consume.fill,
        contestants=CONTESTANTS,
        finish=finish,
        order=35,
    ),
]
