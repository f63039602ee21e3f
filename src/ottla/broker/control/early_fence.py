"""Finds brokers that closed their connections and refuse new ones: they are fenced before their session ends (C8).

Called by doubts.py if the store cannot check which brokers are alive, as with ZooKeeper; the caretaker
(cluster/caretaker.py) acts on `refusing`. A refusal does not prove a death. So a broker fenced for it may still answer
while its lease is valid, and no other coordinator answers before the lease has ended (rule A12):
`lease_of_fenced_ends_ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cluster.caretaker import EARLY_PATIENCE_MS, BrokerIncarnation
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.kernel.seams import Transport

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment

log = logging.getLogger("ottla.early_fence")
KNOCK_TIMEOUT_MS = 1000
PAUSES_MS = (20, 100)
"""A dying process may close connections before its listener: after a successful connect, try again after each."""


class EarlyFence:
    """Tries to connect to brokers that were cut off, and remembers which refused."""

    def __init__(self, around: Environment, peers: Peers) -> None:
        self._around = around
        self._peers = peers
        self._reached: dict[BrokerIncarnation, None] = {}
        """Brokers that accepted a connection of ours. Others may never be reachable, so their refusal says nothing."""
        self._knocking: dict[BrokerIncarnation, Callable[[], None] | None] = {}
        """Brokers that we are trying to reach, with a callback for the case that they accept."""
        self._refusing: dict[BrokerIncarnation, None] = {}
        self._fenced_ms: dict[BrokerIncarnation, int] = {}
        """The time at which each early fence was first seen here."""

    def reached(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """A connection of ours was accepted."""
        self._reached[BrokerIncarnation(broker_id, epoch)] = None

    def came(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """A broker has connected and proved itself: test now, while it is surely alive, whether we can reach it."""
        incarnation = BrokerIncarnation(broker_id, epoch)
        if incarnation not in self._reached and incarnation not in self._knocking:
            self._knock(incarnation, None, PAUSES_MS)

    def was_cut_off(self, broker_id: BrokerId, epoch: BrokerEpoch, opens: Callable[[], None]) -> None:
        """A connection has ended; `opens` is called if the broker can be reached after all."""
        incarnation = BrokerIncarnation(broker_id, epoch)
        broker = self._around.metadata.brokers.get(broker_id)
        if incarnation in self._reached and broker is not None and not broker.draining:
            knocking = incarnation in self._knocking
            self._knocking[incarnation] = opens
            if not knocking:
                self._knock(incarnation, opens, PAUSES_MS)

    def refusing(self) -> frozenset[BrokerIncarnation]:
        """The brokers that refuse connections, once every try has ended.

        Empty if more than half of the live brokers refuse: then this broker is more likely the one that is cut off.
        """
        live = self._around.metadata.live_brokers()
        refusing = frozenset(self._refusing)
        return refusing if not self._knocking and 2 * len(refusing) <= len(live) else frozenset()

    def reconcile(self) -> None:
        """Brokers have changed: forget incarnations that are over."""
        now_ms = self._around.clock.mono_ms()
        brokers = self._around.metadata.brokers.values()
        live = {BrokerIncarnation(broker.broker_id, broker.epoch) for broker in brokers if not broker.fenced}
        self._refusing = {one: None for one in self._refusing if one in live}
        self._reached = {one: None for one in self._reached if one in live}
        self._fenced_ms = {
            one: self._fenced_ms.get(one, now_ms)
            for broker in brokers
            if broker.fenced_early
            for one in (BrokerIncarnation(broker.broker_id, broker.epoch),)
        }

    def lease_of_fenced_ends_ms(self) -> int:
        """The time from which no broker that was fenced early can still act as a leader.

        The lease of a fenced broker counts from a round trip that began before the fence was in the log, and so before
        this broker saw the fence.
        """
        return max(self._fenced_ms.values()) + self._around.follow.lease.length_ms if self._fenced_ms else 0

    def _knock(self, incarnation: BrokerIncarnation, opens: Callable[[], None] | None, pauses: tuple[int, ...]) -> None:
        target, network = self._peers.target(incarnation.broker_id), self._peers.network
        if network is None or target is None or target.epoch != incarnation.epoch:
            self._knocking.pop(incarnation, None)
            return
        self._knocking[incarnation] = opens
        knock = _Knock(lambda error: self._answered(incarnation, error, pauses))
        network.dial(target.host, target.port, knock, timeout_ms=KNOCK_TIMEOUT_MS, max_frame_bytes=0)

    def _answered(self, incarnation: BrokerIncarnation, error: OSError | None, pauses: tuple[int, ...]) -> None:
        opens = self._knocking.get(incarnation)
        if error is None:
            self._reached[incarnation] = None
            self._refusing.pop(incarnation, None)
            if opens is not None and pauses:
                self._around.deadlines.after(pauses[0], lambda: self._knock(incarnation, opens, pauses[1:]))
                return
        del self._knocking[incarnation]
        if error is None:
            if opens is not None:
                opens()
        elif isinstance(error, ConnectionRefusedError) and incarnation in self._reached:
            log.warning("broker %d has closed its connections and refuses new ones", incarnation.broker_id)
            self._refusing[incarnation] = None
        self._look()

    def _look(self) -> None:
        """Have dead brokers handled now, and again when it is our turn, in case the brokers before us did nothing."""
        if self._refusing:
            around = self._around
            around.follow.look_after_brokers()
            turn_ms = EARLY_PATIENCE_MS * len(around.metadata.brokers)
            around.deadlines.after(turn_ms, around.follow.look_after_brokers)


class _Knock:
    """`kernel.seams.Dialled`: a connection that ends as soon as it is there."""

    def __init__(self, answered: Callable[[OSError | None], None]) -> None:
        self._answered: Callable[[OSError | None], None] | None = answered

    def connected(self, transport: Transport, certificate_hash: bytes = b"") -> None:
        self._tell(None)
        transport.close()

    def received(self, frame: memoryview) -> None:
        """Ignore frames: nothing was asked."""

    def lost(self, error: OSError) -> None:
        self._tell(error)

    def _tell(self, error: OSError | None) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(error)
