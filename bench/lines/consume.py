"""Consuming 200-byte records in batches of about 1 MB: from the page cache, from the disk, and by eight at once."""

from __future__ import annotations

from contextlib import ExitStack

from bench.lines import Figure, Figures, Line
from bench.rig import Rig

RECORDS = 5_000_000
READERS = 8
EACH_READS = 1_000_000
_topics: dict[str, str] = {}
_open = ExitStack()


def fill(rig: Rig, contestant: str) -> None:
    """Write the topic once, and read it once."""
    if contestant in _topics:
        return
    _topics[contestant] = _open.enter_context(rig.topic(contestant))
    rig.drive(contestant, "produce", topic=_topics[contestant], records=rig.sized(RECORDS), batch=0, acks="1")
    measure(rig, contestant)


def measure(rig: Rig, contestant: str) -> Figures:
    """Read it from its beginning; the clock starts after the first tenth."""
    records = rig.sized(RECORDS)
    return rig.drive(contestant, "consume", topic=_topics[contestant], records=records, warmup=records // 10)


def catch_up(rig: Rig, contestant: str) -> Figures:
    """A consumer that comes back: nothing of the topic is in the page cache."""
    rig.forget_pages(contestant)
    return rig.drive(contestant, "consume", topic=_topics[contestant], records=rig.sized(RECORDS))


def crowd(rig: Rig, contestant: str) -> Figures:
    """Each of the readers takes the same records of the one partition."""
    records = rig.sized(EACH_READS)
    return rig.drive(contestant, "readers", topic=_topics[contestant], records=records, readers=READERS)


def finish(rig: Rig) -> None:
    """Delete the topics."""
    _open.close()
    _topics.clear()


def figures(title: str, at_least: float, at_most: float | None) -> tuple[Figure, Figure]:
    return (
        Figure("records_per_second", title, "records/s", at_least=at_least),
        Figure("broker_cpu_per_million", "  broker CPU per million", "s", more_is_better=False, at_most=at_most),
    )


LINES = [
    Line("consume", figures("consume", 1.15, 0.85), measure, warm=fill, finish=finish, order=30),
    Line(
        "consume-from-disk",
        figures("consume what only the disk holds", 1.2, None),
        catch_up,
        warm=fill,
        finish=finish,
        order=31,
    ),
    Line(
        "consume-eight-times",
        figures("eight consumers of one partition", 0.9, 0.7),
        crowd,
        warm=fill,
        finish=finish,
        order=32,
    ),
]
