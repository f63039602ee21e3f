"""Asks brokers whether they are alive, before Metadata or FindCoordinator sends a client to them.

A client that loses its leader asks another broker at once, and that one may not know of the death yet: the kernel
closes the newest connections of a killed process first, which are those of clients, and those of brokers some
milliseconds later. librdkafka's consumer that is told the old leader asks again only at its timer of one second
(`rd_kafka_topic_scan_all`). Apache Kafka answers with what it knows.

A killed broker never answers: the connection to it ends, and doubts.py holds the client's answer until the new leader
is known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.kernel.ids import BrokerId
from ottla.kernel.story import Slot, run_story
from ottla.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment

PATIENCE_MS = 50
"""The longest wait for a broker that neither answers nor closes its connection: it hangs, or its machine is gone."""
_PURPOSE = "sign of life"
_VERSION = 4
_TIMEOUT_MS = 5000


class SignsOfLife:
    """At most one request to each broker is under way; those who want one meanwhile share the next."""

    def __init__(self, around: Environment, peers: Peers) -> None:
        self._around = around
        self._peers = peers
        self._asked_ms: dict[BrokerId, int] = {}
        """The time at which each broker was asked that has not answered yet."""
        self._waiting: dict[BrokerId, list[Slot[None]]] = {}
        """For each broker those who wait for the answer to the next request."""

    async def of(self, brokers: Iterable[BrokerId]) -> None:
        """Return once each of these brokers has answered a request sent from now on, or cannot be asked.

        The wait ends after PATIENCE_MS. Nobody else waits for a broker that has been silent for so long.
        """
        waits = [self._next_answer(broker) for broker in sorted(set(brokers)) if self._may_be_asked(broker)]
        if all(wait.full for wait in waits):
            return
        patience = self._around.deadlines.after(PATIENCE_MS, lambda: _fill(waits))
        for wait in waits:
            await wait
        patience.cancel()

    def _may_be_asked(self, broker: BrokerId) -> bool:
        if broker == self._around.broker or not self._around.metadata.is_live(broker):
            return False
        now_ms = self._around.clock.mono_ms()
        return now_ms - self._asked_ms.get(broker, now_ms) < PATIENCE_MS

    def _next_answer(self, broker: BrokerId) -> Slot[None]:
        wait: Slot[None] = Slot()
        self._waiting.setdefault(broker, []).append(wait)
        if broker not in self._asked_ms:
            run_story(self._ask(broker))
        return wait

    async def _ask(self, broker: BrokerId) -> None:
        """Ask the broker as long as anybody waits for it."""
        while waiting := self._waiting.pop(broker, None):
            self._asked_ms[broker] = self._around.clock.mono_ms()
            with contextlib.suppress(OSError):  # doubts.py is told of a connection that has ended
                await self._peers.call(broker, _PURPOSE, OffsetForLeaderEpochRequest(), _VERSION, _TIMEOUT_MS)
            _fill(waiting)
        del self._asked_ms[broker]


def _fill(waits: Iterable[Slot[None]]) -> None:
    for wait in waits:
        wait.fill(None)
