"""Building blocks of histories for the tests of judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.sim.checkers.history import Acknowledged, Anomaly, Event, History, LogKey, Polled, Scanned, Sent, Traits

LOG = LogKey("ab", 0)
ALL, LEADER = -1, 1
A, B, C, D, E = b"a", b"b", b"c", b"d", b"e"


def sent(batch: int, *values: bytes, acks: int = ALL, producer: str = "p") -> Sent:
    return Sent(batch, producer, LOG, batch, values, acks, True)


def acknowledged(batch: int, offset: int, producer: str = "p") -> Acknowledged:
    return Acknowledged(batch, producer, LOG, batch, offset)


def polled(offset: int, *values: bytes, reader: str = "r", asked: int | None = None) -> Polled:
    """Values from an offset on; `asked` is the offset that the reader asked for, if that is another one."""
    records = tuple((offset + place, value) for place, value in enumerate(values))
    return Polled(0, reader, LOG, offset if asked is None else asked, records)


def scanned(start: int, *values: bytes) -> Scanned:
    records = tuple((start + place, value) for place, value in enumerate(values))
    return Scanned(9, LOG, start, start + len(values), records)


def kinds(judge: Callable[[History], Iterator[Anomaly]], *events: Event, traits: Traits | None = None) -> set[str]:
    history = History()
    history.traits[LOG] = traits or Traits("t")
    for event in events:
        history.add(event)
    return {anomaly.kind.partition(":")[2] for anomaly in judge(history)}


SOUND: tuple[Event, ...] = (sent(1, A, B), acknowledged(1, 0), sent(2, C), acknowledged(2, 2))
