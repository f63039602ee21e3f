"""A coordinator's shard without a broker: decisions are carried out at once, and the test moves the clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import Moment, Outcome
from ottla.kernel.story import Slot
from ottla.kernel.trusted_time import TrustedTime

WALL_START_MS = 1_700_000_000_000


class ShardDesk(ABC):
    """Plays the broker to one shard. `log` holds the appended records, `refusing` is the error of appends."""

    encode: ClassVar[Callable[[Any], tuple[bytes, bytes | None]]]
    """The codec of the shard's entries."""
    decode: ClassVar[Callable[[bytes, bytes | None], Any]]
    shard: Any

    def __init__(self) -> None:
        self.shard = self._new_shard()
        self.now_ms = 0
        self.wall_start_ms = WALL_START_MS
        self.trusted = TrustedTime(WALL_START_MS, 0)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.refusing: ErrorCode | None = None

    @abstractmethod
    def _new_shard(self) -> Any:
        """A shard that has read nothing yet."""

    def _act(self, effect: object) -> None:
        """Carry out an effect of a decision."""
        raise AssertionError(f"{effect} is not expected")

    @property
    def now(self) -> Moment:
        mono_ms, wall_ms = self.now_ms, self.wall_start_ms + self.now_ms
        self.trusted.look(wall_ms, mono_ms)
        return Moment(mono_ms, wall_ms, lambda retention_ms: self.trusted.aged(retention_ms, wall_ms, mono_ms))

    def ticket(self) -> Slot[Any]:
        return Slot()

    def carry_out(self, decision: Outcome[Any]) -> None:
        if decision.entries and self.refusing:
            decision = self.shard.refused(decision, self.refusing, self.now)
            assert not decision.entries and not decision.effects
        for entry in decision.entries:
            self.log.append(self.encode(entry))
            self.shard.apply(entry, len(self.log) - 1, decision.writer.producer_id if decision.writer else -1)
        for ticket, answer in decision.replies:
            assert not ticket.full, "a ticket was answered twice"
            ticket.fill(answer)
        for effect in decision.effects:
            self._act(effect)

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        until_ms = self.now_ms + milliseconds
        while (due_ms := self.shard.next_deadline_ms) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tick()
        self.now_ms = until_ms

    def tick(self) -> None:
        while (decision := self.shard.tick(self.now)) is not None:
            self.carry_out(decision)

    def replayed(self) -> Any:
        """The shard that another broker would read from the log."""
        shard = self._new_shard()
        for offset, (key, value) in enumerate(self.log):
            entry = self.decode(key, value)
            assert entry is not None
            shard.apply(entry, offset)
        return shard

    def fail_over(self) -> None:
        """Move the shard: everything that is not in the log is lost."""
        self.shard = self.replayed()
        self.carry_out(self.shard.loaded(self.now))
