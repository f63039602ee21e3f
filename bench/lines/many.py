"""Many partitions and many connections, each compared with a run of its own with one."""

from __future__ import annotations

from contextlib import ExitStack

from bench.lines import Figure, Figures, Line
from bench.rig import Rig

PARTITIONS = 1_000
CONNECTIONS = 500
RECORDS = 1_000_000
_topics: dict[str, str] = {}
_open = ExitStack()


def make_partitions(rig: Rig, contestant: str) -> None:
    """Make a topic of many partitions; write and read it once."""
    if contestant in _topics:
        return
    _topics[contestant] = _open.enter_context(rig.topic(contestant, PARTITIONS))
    produce_to_partitions(rig, contestant)
    consume_from_partitions(rig, contestant)


def produce_to_partitions(rig: Rig, contestant: str) -> Figures:
    """Write to all partitions, twenty records to each in turn."""
    return rig.drive(
        contestant, "produce", topic=_topics[contestant], records=rig.sized(RECORDS), warmup=20 * PARTITIONS,
        partitions=PARTITIONS, run=20, batch=0, acks="1",
    )  # fmt: skip


def consume_from_partitions(rig: Rig, contestant: str) -> Figures:
    """Read all partitions with one consumer; the clock starts after the first tenth."""
    records = rig.sized(RECORDS)
    return rig.drive(
        contestant, "consume", topic=_topics[contestant], records=records, warmup=records // 10, partitions=PARTITIONS
    )


def finish(rig: Rig) -> None:
    """Delete the topics."""
    _open.close()
    _topics.clear()


def crowd(rig: Rig, contestant: str) -> Figures:
    """Produce on all connections at once, each with a client of its own."""
    with rig.topic(contestant) as topic:
        return rig.drive(
            contestant, "crowd", topic=topic, records=rig.sized(200_000), connections=CONNECTIONS, batch=50, acks="1"
        )


def idle(rig: Rig, contestant: str) -> Figures:
    """Produce on one connection while the others are open and silent."""
    with rig.topic(contestant) as topic:
        return rig.drive(
            contestant, "produce", topic=topic, records=rig.sized(1_000_000), warmup=rig.sized(100_000), batch=50,
            acks="1", idle=CONNECTIONS - 1,
        )  # fmt: skip


def line(name: str, title: str, measure: object, *, at_least: float | None = None, **more: object) -> Line:
    figures = (
        Figure("records_per_second", title, "records/s", at_least=at_least),
        Figure("broker_cpu_per_million", "  broker CPU per million", "s", more_is_better=False),
    )
    return Line(name, figures, measure, order=60, **more)  # type: ignore[arg-type]


LINES = [
    line(
        "partitions-produce",
        "produce to 1,000 partitions",
        produce_to_partitions,
        at_least=1.1,
        warm=make_partitions,
        finish=finish,
    ),
    line(
        "partitions-read",
        "consume 1,000 partitions",
        consume_from_partitions,
        at_least=1.1,
        warm=make_partitions,
        finish=finish,
    ),
    line("connections-active", "500 connections produce", crowd, warm=lambda rig, who: crowd(rig, who) and None),
    line("connections-idle", "1 of 500 connections produces", idle, warm=lambda rig, who: idle(rig, who) and None),
]
