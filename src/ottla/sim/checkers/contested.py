"""The thirteenth judge: offsets that are committed in transactions and plainly at once count by their records' order.

A transaction's offset counts once the transaction is committed, unless the record of another commit stands behind its
own. The offset that a group must be told follows from the records of `__consumer_offsets`, which were noted when they
were committed (`transaction_notes.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ottla.groups.offsets import NO_PRODUCER
from ottla.kernel.ids import TopicPartition
from ottla.sim.checkers.history import Anomaly, History
from ottla.sim.checkers.transaction_history import (
    AllEnded,
    ContestedEnded,
    ContestedStored,
    ContestedTaken,
    ContestedTold,
    ContestedUnstable,
)
from ottla.sim.checkers.transactions import NEVER

_NOTHING = -1


class _Commit(NamedTuple):
    record_offset: int
    offset: int


_NO_COMMIT = _Commit(-1, _NOTHING)


class _State(NamedTuple):
    """The offset that the log says after one of its records."""

    noted_us: int
    record_offset: int
    offset: int
    unstable: bool
    """True if a transaction is open that may change the offset."""


class _Place:
    """The group's offset of one partition, record by record."""

    def __init__(self) -> None:
        self.states = [_State(-1, -1, _NOTHING, unstable=False)]
        self.stored: dict[int, int] = {}
        """By offset, that of the first record that commits it: a request that was not answered is sent again."""
        self._standing = _NO_COMMIT
        self._pending: dict[int, _Commit] = {}

    def take(self, event: ContestedStored) -> None:
        commit = _Commit(event.record_offset, _NOTHING if event.offset is None else event.offset)
        if event.offset is None:
            self._standing, self._pending = _NO_COMMIT, {}
        elif event.producer_id == NO_PRODUCER:
            self._standing = commit
        else:
            self._pending[event.producer_id] = commit
        self.stored.setdefault(commit.offset, event.record_offset)
        self._note(event.at_us, event.record_offset)

    def end(self, event: ContestedEnded) -> None:
        commit = self._pending.pop(event.producer_id, None)
        if commit is not None:
            if event.committed and commit.record_offset > self._standing.record_offset:
                self._standing = commit
            self._note(event.at_us, event.record_offset)

    def _note(self, at_us: int, record_offset: int) -> None:
        self.states.append(_State(at_us, record_offset, self._standing.offset, unstable=bool(self._pending)))

    def between(self, least: int, until_us: int) -> list[_State]:
        """The states from this record on, as far as they were committed by then."""
        first = bisect_right(self.states, least, key=lambda state: state.record_offset) - 1
        after = bisect_right(self.states, until_us, key=lambda state: state.noted_us)
        return self.states[first:after]


def check_contested(history: History) -> Iterator[Anomaly]:
    """Anomalies of the offsets that the contested group was told."""
    places = _places(history)
    all_ended_us = NEVER
    taken: list[ContestedTaken] = []
    for event in history.events:
        if isinstance(event, ContestedTaken):
            taken.append(event)
        elif isinstance(event, AllEnded):
            all_ended_us = event.at_us
        elif isinstance(event, ContestedTold | ContestedUnstable):
            place = places.setdefault(event.place, _Place())
            known = [
                place.stored.get(one.offset)
                for one in taken
                if one.place == event.place and one.at_us <= event.asked_us
            ]
            if None in known:
                yield Anomaly("lost-commit", f"{event.place}: a commit was answered that is in no log")
            last = max((each for each in known if each is not None), default=-1)
            if event.asked_us >= all_ended_us:
                last = max(last, *(state.record_offset for state in place.states if state.noted_us <= all_ended_us))
            yield from _told(event, place.between(last, event.at_us))


def _places(history: History) -> dict[TopicPartition, _Place]:
    places: dict[TopicPartition, _Place] = {}
    for event in history.events:
        if isinstance(event, ContestedStored):
            places.setdefault(event.place, _Place()).take(event)
        elif isinstance(event, ContestedEnded):
            for place in places.values():
                place.end(event)
    return places


def _told(event: ContestedTold | ContestedUnstable, states: list[_State]) -> Iterator[Anomaly]:
    """One answer, and the states of the log that it may come from."""
    if isinstance(event, ContestedUnstable):
        if not any(state.unstable for state in states):
            yield Anomaly("unstable-for-nothing", f"{event.place}: no transaction is open in {states}")
        return
    may_be = [state.offset for state in states if not (event.stable and state.unstable)]
    if event.offset not in may_be:
        how = " with require_stable" if event.stable else ""
        yield Anomaly("misordered-commit", f"{event.place}: told {event.offset}{how}, and the log says {states}")
