"""The ninth judge: generations of a group, epochs of a leader and of a producer end the ones before them."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import (
    Acknowledged,
    Anomaly,
    CommittedIn,
    Generation,
    History,
    LatestSeen,
    LogKey,
    Outdated,
    Scanned,
    Sent,
)


def check_successors(history: History) -> Iterator[Anomaly]:
    """Anomalies of generations and epochs that were over."""
    yield from _generations(history)
    yield from _latest(history)
    yield from _outdated(history)


def _generations(history: History) -> Iterator[Anomaly]:
    """No member commits in a generation once any member has been told of a newer one."""
    begun: dict[str, list[tuple[int, int]]] = {}
    for event in history.events:
        if isinstance(event, Generation):
            begun.setdefault(event.group, []).append((event.at_us, event.generation))
        elif isinstance(event, CommittedIn):
            newer = [each for at_us, each in begun.get(event.group, ()) if at_us < event.asked_us]
            if newer and max(newer) > event.generation:
                yield Anomaly(
                    "old-generation",
                    f"group {event.group} took a commit of generation {event.generation} after {max(newer)} began",
                )


def _latest(history: History) -> Iterator[Anomaly]:
    """A leader of a later epoch knows all that was committed when it began (KIP-207)."""
    told: dict[LogKey, list[LatestSeen]] = {}
    for event in history.events:
        if not isinstance(event, LatestSeen):
            continue
        before = told.setdefault(event.log, [])
        known = [each for each in before if each.at_us < event.asked_us and each.epoch <= event.epoch]
        if known and (most := max(known, key=lambda each: each.offset)).offset > event.offset:
            yield Anomaly(
                "latest-went-back",
                f"{history.name(event.log)}: in epoch {event.epoch} the latest offset is {event.offset}, after "
                f"{most.offset} in epoch {most.epoch}",
            )
        before.append(event)


def _outdated(history: History) -> Iterator[Anomaly]:
    """A log takes no batch of a producer's older epoch (KIP-360)."""
    late: dict[tuple[str, int], bool] = {}
    values: dict[bytes, tuple[str, int]] = {}
    for event in history.events:
        if isinstance(event, Outdated):
            late[event.producer, event.batch] = False
        elif isinstance(event, Sent):
            values |= dict.fromkeys(event.values, (event.producer, event.batch))
        elif isinstance(event, Acknowledged) and (event.producer, event.batch) in late:
            late[event.producer, event.batch] = True
        elif isinstance(event, Scanned):
            for _, value in event.records:
                if values.get(value) in late:
                    late[values[value]] = True
    for (producer, batch), taken in late.items():
        if taken:
            yield Anomaly("older-epoch", f"batch {batch} of {producer} was taken although its epoch was over")
