"""Consuming one gigabyte of 200-byte records in batches of about 1 MB, from the page cache."""

from __future__ import annotations

from contextlib import ExitStack

from bench.lines import Figure, Figures, Line
from bench.rig import Rig

RECORDS = 5_000_000
_topics: dict[str, str] = {}
_open = ExitStack()


def fill(rig: Rig, contestant: str) -> None:
    """Write the topic once, and read it once."""
    _topics[contestant] = _open.enter_context(rig.topic(contestant))
    rig.drive(contestant, "produce", topic=_topics[contestant], records=rig.sized(RECORDS), batch=0, acks="1")
    measure(rig, contestant)


def measure(rig: Rig, contestant: str) -> Figures:
    """Read it from its beginning; the clock starts after the first tenth."""
    records = rig.sized(RECORDS)
    return rig.drive(contestant, "consume", topic=_topics[contestant], records=records, warmup=records // 10)


def finish(rig: Rig) -> None:
    """Delete the topics."""
    _open.close()
    _topics.clear()


LINES = [
    Line(
        "consume",
        (
            Figure("records_per_second", "consume", "records/s", at_least=0.95),
            Figure("broker_cpu_per_million", "  broker CPU per million", "s", more_is_better=False, at_most=1.1),
        ),
        measure,
        warm=fill,
        finish=finish,
        order=30,
    )
]
