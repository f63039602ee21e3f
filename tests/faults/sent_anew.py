"""Tells records that a client sent twice as new ones from records that a broker doubled.

If a batch is refused because the one before it was, librdkafka takes a new producer epoch and sends again in it all
unanswered records, in other partitions too (its issue 4953). Sequences restart in a new epoch, so no broker can see
that these are repeats. The headers of the batches on disk show the producer and epoch of each copy: copies that all
differ in these were sent as separate records; copies of one epoch are a broker's fault.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ottla.records.batch import iterate_batches
from ottla.sim.checkers.history import Event, History, LogKey, Polled, Scanned, Sent


class Place(NamedTuple):
    log: LogKey
    offset: int


SenderOf = Callable[[Place], tuple[int, int]]
"""The producer id and epoch of the batch at a place."""


def older_copies(scans: Iterable[Scanned], sender_of: SenderOf) -> dict[Place, bytes]:
    """Places of older copies of a record, with a value that tells each from the newest copy."""
    found: dict[Place, bytes] = {}
    for scan in scans:
        places: dict[bytes, list[Place]] = {}
        for offset, value in scan.records:
            places.setdefault(value, []).append(Place(scan.log, offset))
        for value, copies in places.items():
            senders = [sender_of(place) for place in copies] if len(copies) > 1 else []
            if len(set(senders)) == len(senders):
                for place, (producer_id, epoch) in zip(copies[:-1], senders, strict=False):
                    found[place] = value + b" of producer %d in epoch %d" % (producer_id, epoch)
    return found


def told_apart(history: History, older: dict[Place, bytes]) -> History:
    """The same history, with each older copy as a separate record that was never acknowledged."""
    if not older:
        return history
    other = History()
    other.traits, other.replicated = history.traits, history.replicated
    names: dict[tuple[LogKey, bytes], list[bytes]] = {}
    for place, name in older.items():
        names.setdefault((place.log, name.partition(b" of producer ")[0]), []).append(name)
    for event in history.events:
        other.add(_renamed(event, older))
        if isinstance(event, Sent):
            for value in event.values:
                for name in names.get((event.log, value), ()):
                    producer = f"{event.producer}{name.removeprefix(value).decode()}"
                    other.add(event._replace(producer=producer, values=(name,)))
    return other


def _renamed(event: Event, older: dict[Place, bytes]) -> Event:
    if not isinstance(event, Polled | Scanned):
        return event
    records = tuple((offset, older.get(Place(event.log, offset), value)) for offset, value in event.records)
    return event._replace(records=records)


def senders_on_disk(data: Path) -> SenderOf:
    """A lookup of senders in a broker's segments; each log is read once, at its first lookup."""
    known: dict[LogKey, tuple[list[int], list[tuple[int, int]]]] = {}

    def sender_of(place: Place) -> tuple[int, int]:
        if place.log not in known:
            starts, senders = known[place.log] = [], []
            for segment in sorted((data / f"{place.log.topic_id}-{place.log.partition}").glob("*.log")):
                for batch in iterate_batches(segment.read_bytes()):
                    starts.append(batch.base_offset)
                    senders.append((batch.producer_id, batch.producer_epoch))
        starts, senders = known[place.log]
        return senders[bisect_right(starts, place.offset) - 1]

    return sender_of
