"""Turns the store's advice about live brokers into fences, and this broker's own return into an unfence.

`broker/metadata_log/metadata_follow.py` gives it a turn whenever the live set may have changed and now and then. The
live broker with the lowest epoch acts at once, the others only on a death that was left unhandled (architecture,
decision 3).
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.cluster.broker_commands import FenceBroker, UnfenceBroker
from ottla.cluster.brokers import EARLY_FENCES
from ottla.cluster.commands import Command
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.metadata.state import Metadata

PATIENCE_MS = 2000
"""The time for which a broker leaves a death to each broker that ranks before it."""
EARLY_PATIENCE_MS = 100
"""The same for an early fence, as the others may not have seen the refusal: a second fence would do no harm."""
NEWCOMER_MS = 10_000
"""The time for which a broker that started is a newcomer, which leads last.

It is the longest that librdkafka waits, by default, before it connects again to a broker that it could not reach
(`reconnect.backoff.max.ms`). If such a broker leads, a producer stands still for the rest of that wait: 8.7 s in
bench/failover.py.
"""


class BrokerIncarnation(NamedTuple):
    """One run of a broker."""

    broker_id: BrokerId
    epoch: BrokerEpoch


class Caretaker:
    """One broker's work on the life and death of all brokers."""

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self._missing_since_ms: dict[BrokerIncarnation, int] = {}
        self._seen_since_ms: dict[BrokerIncarnation, int] = {}
        """The time at which each live broker was first seen here; long ago for those that were here before us."""

    def turn(
        self,
        state: Metadata,
        live: frozenset[BrokerId],
        epoch: BrokerEpoch,
        now_ms: int,
        refusing: frozenset[BrokerIncarnation] = frozenset(),
    ) -> list[Command]:
        """Commands to submit; `epoch` is this broker's own incarnation.

        `refusing` are brokers that closed their connections and refuse new ones: they are fenced early (rule C8), if
        all brokers know early fences.
        """
        me = state.brokers.get(self._broker_id)
        if me is None or me.epoch != epoch:
            return []
        self._note_starts(state, now_ms)
        if me.fenced:
            return [UnfenceBroker(me.broker_id, me.epoch)]
        if state.metadata_version() < EARLY_FENCES:
            refusing = frozenset()
        others = [broker for broker in state.live_brokers() if broker.broker_id != self._broker_id]
        refusing = refusing.intersection(
            BrokerIncarnation(one.broker_id, one.epoch) for one in others if not one.draining
        )
        present = live.difference(one.broker_id for one in sorted(refusing))
        missing = [BrokerIncarnation(one.broker_id, one.epoch) for one in others if one.broker_id not in present]
        self._missing_since_ms = {one: self._missing_since_ms.get(one, now_ms) for one in missing}
        rank = self.rank(state, present)
        newcomers = self._newcomers(present, now_ms)
        fences: list[Command] = []
        for one, since_ms in self._missing_since_ms.items():
            patience_ms = EARLY_PATIENCE_MS if one in refusing else PATIENCE_MS
            if now_ms - since_ms >= rank * patience_ms:
                early = one.broker_id in live
                fences.append(FenceBroker(one.broker_id, one.epoch, early=early, newcomers=newcomers))
        return fences

    def _note_starts(self, state: Metadata, now_ms: int) -> None:
        since_ms = now_ms if self._seen_since_ms else now_ms - NEWCOMER_MS
        incarnations = [BrokerIncarnation(one.broker_id, one.epoch) for one in state.live_brokers()]
        self._seen_since_ms = {one: self._seen_since_ms.get(one, since_ms) for one in incarnations}

    def _newcomers(self, present: frozenset[BrokerId], now_ms: int) -> tuple[BrokerId, ...]:
        """The brokers that started a moment ago, in the order of their starts.

        The caretaker has seen every other broker start, as its own epoch is the lowest.
        """
        lately = [one for one, since_ms in self._seen_since_ms.items() if now_ms - since_ms < NEWCOMER_MS]
        return tuple(one.broker_id for one in sorted(lately, key=_epoch) if one.broker_id in present)

    def rank(self, state: Metadata, live: frozenset[BrokerId]) -> int:
        """The rank of this broker: 0 for the caretaker, 1 for its stand-in, and so on."""
        by_epoch = sorted(
            (broker.epoch, broker.broker_id)
            for broker in state.live_brokers()
            if broker.broker_id in live or broker.broker_id == self._broker_id
        )
        order = [broker_id for _, broker_id in by_epoch]
        return order.index(self._broker_id) if self._broker_id in order else len(order)


def _epoch(incarnation: BrokerIncarnation) -> BrokerEpoch:
    return incarnation.epoch
