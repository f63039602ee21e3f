"""The coordination store with its worst legal behaviour: slow, silent, late; but linearizable and durable.

Requests and answers take time drawn from a seed. The answer of an append may be lost. The append itself may have been
done, may never be done, or may be done long after its caller gave up (rule C1). The store itself is
`coordination/memory.py`; the simulated brokers see it through this.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.coordination.memory import MemoryStore
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, LogEntry, StoredSnapshot, Unknown, Written
from ottla.kernel.story import Slot
from ottla.sim.loop import SimLoop

T = TypeVar("T")
Outcome = Written | Conflict | Unknown
Guard = Callable[[Callable[[], None]], Callable[[], None]]


def _unguarded(callback: Callable[[], None]) -> Callable[[], None]:
    return callback


class CoordinationFaults(NamedTuple):
    """The severity of store faults. Shares are of all requests; times in microseconds, even between two bounds."""

    way_us: tuple[int, int] = (50, 2000)
    """The time of one way, there or back."""
    lost_answer: float = 0.0
    lost_request: float = 0.0
    late: float = 0.0
    """The share of requests that are done only after their callers gave up."""
    lost_hint: float = 0.0
    patience_us: int = 400_000
    """The time after which a request without an answer is given up."""


CALM = CoordinationFaults()
ROUGH = CoordinationFaults(
    way_us=(50, 30_000), lost_answer=0.05, lost_request=0.05, late=0.05, lost_hint=0.3, patience_us=100_000
)
SLOW = CoordinationFaults(way_us=(20_000, 300_000), patience_us=2_000_000)


class SimCoordination:
    """One broker's connection to the store. `cut` separates the two; `crash` ends the broker without notice."""

    def __init__(
        self,
        store: MemoryStore,
        broker_id: BrokerId,
        loop: SimLoop,
        seed: int,
        faults: CoordinationFaults = CALM,
        *,
        session_us: int = 0,
        guard: Guard = _unguarded,
    ) -> None:
        """`session_us`: the time between a broker's end and its notice by others; 0 if a lock shows it at once.

        `guard` wraps all callbacks of the broker: a paused process gets them only when it goes on.
        """
        self.name = "the simulated store"
        self._store = store
        self._broker_id = broker_id
        self._loop = loop
        self._random = random.Random(f"coordination-{seed}-{broker_id}")
        self._session_us = session_us
        self._guard = guard
        self._ended = False
        self.faults = faults
        self.cut = False
        self.appends = 0
        self.unknown = 0
        self.heard_us = 0
        """The time at which the last answered request was sent: no lease counts from a later time."""
        store.join(broker_id, self)

    # Coordination

    def append(self, entries: Sequence[bytes], expected_version: int) -> Slot[Outcome]:
        bodies = list(entries)
        self.appends += 1
        slot: Slot[Outcome] = Slot()

        def run() -> Outcome:
            outcome: Outcome = self._store.append(bodies, expected_version)
            if isinstance(outcome, Written):
                self._loop.note(f"broker {self._broker_id} appended {len(bodies)} up to {outcome.version}")
                self._store.tell_others(self._broker_id)
            return outcome

        self._send(run, slot, lambda: slot.fill(self._lost()))
        return slot

    def read(self, after_version: int, limit: int = 1000) -> Slot[list[LogEntry]]:
        return self._ask(lambda: self._store.read(after_version, limit))

    def head(self) -> Slot[int]:
        return self._ask(lambda: self._store.head)

    def load_snapshot(self) -> Slot[StoredSnapshot | None]:
        return self._ask(self._store.load_snapshot)

    def save_snapshot(self, snapshot: StoredSnapshot) -> Slot[None]:
        return self._ask(lambda: self._store.save_snapshot(snapshot))

    def raise_age(self, name: str, age: int) -> Slot[int]:
        return self._ask(lambda: self._store.raise_age(name, age))

    def on_change(self, listener: Callable[[], None]) -> None:
        def hint() -> None:
            if not self._ended and not self.cut and self._random.random() >= self.faults.lost_hint:
                self._tell(self._way_us(), listener)

        self._store.listeners[self._broker_id] = hint

    def live(self) -> frozenset[BrokerId]:
        return frozenset(self._store.live)

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._store.leave(self._broker_id, self)

    # Faults

    def crash(self) -> None:
        """End the broker: no slot is filled any more; its session ends by its timeout."""
        if not self._ended:
            self._ended = True
            self._loop.call_after_us(self._session_us, lambda: self._store.leave(self._broker_id, self))

    def expire(self) -> None:
        """End the broker's session, whatever the state of the broker."""
        self._store.live.pop(self._broker_id, None)
        self._store.tell_others(self._broker_id)

    def revive(self) -> None:
        """Make the broker known as alive again."""
        self._store.join(self._broker_id, self)

    # The way there and back

    def _ask(self, run: Callable[[], T]) -> Slot[T]:
        slot: Slot[T] = Slot()
        self._send(run, slot, lambda: slot.fail(OSError("the coordination store does not answer")))
        return slot

    def _send(self, run: Callable[[], T], slot: Slot[T], give_up: Callable[[], None]) -> None:
        fate = self._random.random()
        faults = self.faults
        lost = self.cut or fate < faults.lost_request
        silent = fate < faults.lost_request + faults.lost_answer
        late = not lost and not silent and fate < faults.lost_request + faults.lost_answer + faults.late
        if lost or silent or late:
            self._tell(faults.patience_us, give_up)
        if not lost:
            there_us = self._way_us() + (faults.patience_us + self._way_us() if late else 0)
            sent_us, answers = self._loop.now_us, not (silent or late)
            self._loop.call_after_us(there_us, lambda: self._arrive(run, slot, sent_us, answers=answers))

    def _arrive(self, run: Callable[[], T], slot: Slot[T], sent_us: int, *, answers: bool) -> None:
        """Run a request at the store, also one that was sent before a crash or a cut."""
        try:
            value = run()
        except LookupError as error:
            answer: Callable[[], None] = partial(slot.fail, error)
        else:
            answer = partial(slot.fill, value)
        if answers:
            self._tell(self._way_us(), partial(self._heard, sent_us, answer))

    def _heard(self, sent_us: int, answer: Callable[[], None]) -> None:
        self.heard_us = max(self.heard_us, sent_us)
        answer()

    def _tell(self, after_us: int, callback: Callable[[], None]) -> None:
        """Call the broker back later, if it still exists."""
        self._loop.call_after_us(after_us, self._guard(lambda: None if self._ended else callback()))

    def _lost(self) -> Unknown:
        self.unknown += 1
        return Unknown("the answer was lost")

    def _way_us(self) -> int:
        return self._random.randint(*self.faults.way_us)
