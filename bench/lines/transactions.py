"""Transactions of 200-byte records, one after the other, and the cost of `read_committed` for a reader."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from bench.lines import Figure, Figures, Line
from bench.lines.replicated import CONTESTANTS as CLUSTERS
from bench.lines.replicated import finish as stop_clusters
from bench.rig import Rig

# Records in a transaction, partitions that they go to, transactions in a run, the name.
SHAPES = ((1, 1, 500, "1"), (1_000, 1, 300, "1000"), (1_000, 10, 300, "1000-of-10"), (1_000, 100, 100, "1000-of-100"))
READ_RECORDS = 4_000_000
LEVELS = ("uncommitted", "committed")
_topics: dict[str, str] = {}
_open = ExitStack()


def measure(rig: Rig, contestant: str, *, records: int, partitions: int, transactions: int) -> Figures:
    """One run into a topic of its own, by a new transactional id."""
    with rig.topic(contestant, partitions) as topic:
        run = rig.drive(
            contestant, "transact", topic=topic, records=rig.sized(transactions) * records, transaction=records,
            warmup=rig.sized(transactions) // 10 * records, partitions=partitions, batch=0, acks="all",
            transactional__id=topic,
        )  # fmt: skip
    return run | {"per_second": run["records_per_second"] / records}


def line(records: int, partitions: int, transactions: int, name: str, *, replicated: bool = False) -> Line:
    run = partial(measure, records=records, partitions=partitions, transactions=transactions)
    several = f"{records:,} records" if records > 1 else "one record"
    over = f" over {partitions} partitions" if partitions > 1 else ""
    where = "3 brokers, " if replicated else ""
    line = Line(
        f"{'replicated-' if replicated else ''}transactions-{name}",
        (
            Figure("per_second", f"{where}transactions of {several}{over}", "/s", at_least=1.0),
            Figure("broker_cpu_per_million", "  broker CPU per million records", "s", more_is_better=False),
        ),
        run,
        warm=lambda rig, contestant: run(rig, contestant) and None,
        order=27,
    )
    return replace(line, contestants=CLUSTERS, finish=stop_clusters, order=66) if replicated else line


def fill(rig: Rig, contestant: str) -> None:
    """Write a topic in transactions once, and read it once."""
    if contestant not in _topics:
        _topics[contestant] = topic = _open.enter_context(rig.topic(contestant))
        rig.drive(
            contestant, "transact", topic=topic, records=rig.sized(READ_RECORDS), transaction=1_000, batch=0,
            acks="all", transactional__id=topic,
        )  # fmt: skip
    read(rig, contestant, level=LEVELS[0])


def read(rig: Rig, contestant: str, *, level: str) -> Figures:
    """Read it from its beginning; the clock starts after the first tenth."""
    records = rig.sized(READ_RECORDS)
    return rig.drive(
        contestant, "consume", topic=_topics[contestant], records=records, warmup=records // 10,
        isolation__level=f"read_{level}",
    )  # fmt: skip


def reading(level: str) -> Line:
    figures = (
        Figure("records_per_second", f"read_{level} of transactions of 1,000", "records/s", at_least=0.95),
        Figure("broker_cpu_per_million", "  broker CPU per million", "s", more_is_better=False),
    )
    return Line(f"read-{level}", figures, partial(read, level=level), warm=fill, finish=finish, order=31)


def both_levels() -> Line:
    """Both sides are ours: a reader that leaves out what is not committed pays next to nothing for it."""
    title = "ours: read_committed beside read_uncommitted"
    return Line(
        "read-levels",
        (Figure("records_per_second", title, "records/s", at_least=0.97),),
        lambda rig, level: read(rig, "ottla", level=level),
        warm=lambda rig, level: fill(rig, "ottla"),
        finish=finish,
        contestants=("committed", "uncommitted"),
        order=31,
    )


def finish(rig: Rig) -> None:
    """Delete the topics."""
    _open.close()
    _topics.clear()


LINES = [
    *(line(*shape) for shape in SHAPES),
    *(line(*shape, replicated=True) for shape in SHAPES),
    *(reading(level) for level in LEVELS),
    both_levels(),
]
