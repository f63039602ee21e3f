"""A client's connection in the simulated network: sends real requests as bytes and parses real answers.

workload.py's clients are stories that `await peer.ask(...)`, which is None if no answer came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ottla.access.login import LoginStage
from ottla.access.names import ANONYMOUS
from ottla.client.core.link import Link, api_of, api_versions_request, response_of
from ottla.client.errors import ProtocolViolation
from ottla.kernel.ids import BrokerId
from ottla.kernel.story import Slot
from ottla.messages.metadata import MetadataRequest
from ottla.sim.checkers.answers import Question, answered, asked
from ottla.sim.checkers.history import Anomaly
from ottla.sim.loop import SimLoop, SimTimer
from ottla.sim.machine import Machine
from ottla.sim.network import Network, Wire

PATIENT_MS = 3000
_CONNECT_AGAIN_US = 30_000
Hold = Callable[[Iterable[Anomaly]], object]


class Violation(Exception):
    """An answer cannot be parsed."""


class Credentials(Protocol):
    """A client's way to log in at each broker; it hears of what comes of its sessions."""

    async def prove(self, peer: Peer) -> bool:
        """Log in, if that is due on the peer's connection; False if the broker refused it or was lost."""

    def answered(self, peer: Peer, request: type[Any], sent_us: int) -> None:
        """Note that a request of this class, sent then, was answered."""

    def lost(self, peer: Peer, stage: LoginStage) -> None:
        """Note that the connection was lost, and what its broker thought of its login."""


Caller = str | Credentials
"""The principal that brokers take a client for without a login, or what it logs in with."""


class _Asked:
    __slots__ = ("question", "request", "sent_us", "slot", "timer")

    def __init__(
        self, slot: Slot[Any], timer: SimTimer, request: type[Any], sent_us: int, question: Question | None
    ) -> None:
        self.slot = slot
        self.timer = timer
        self.request = request
        self.sent_us = sent_us
        self.question = question


class _Dialogue:
    """The life of one connection; a peer that connects again begins another."""

    def __init__(self, peer: Peer, network: Network, machine: Machine) -> None:
        self.peer = peer
        self.link = Link(peer.name)
        self.asked: deque[_Asked] = deque()
        self.gone = False
        serving = machine.serving
        assert serving is not None
        principal = peer.caller if isinstance(peer.caller, str) else None
        self.wire: Wire = network.connect(serving, self, peer.name, principal=principal)
        assert self.wire.server is not None
        self.login = self.wire.server.connection.login

    def on_bytes(self, piece: bytes) -> None:
        inbox = self.link.inbox
        at = 0
        while at < len(piece) and not self.gone:
            target = inbox.target()
            count = min(len(target), len(piece) - at)
            target[:count] = piece[at : at + count]
            at += count
            frame = inbox.received(count)
            if frame is not None:
                self._answered(frame)

    def _answered(self, frame: memoryview) -> None:
        try:
            _, message = self.link.answer(frame)
        except ProtocolViolation as fault:
            raise Violation(f"{self.peer.name} cannot read an answer: {fault}") from fault
        asked = self.asked.popleft()
        asked.timer.cancel()
        if asked.question is not None:
            self.peer.hold(answered(asked.question, message))
        if self.peer.credentials is not None:
            self.peer.credentials.answered(self.peer, asked.request, asked.sent_us)
        asked.slot.fill(message)

    def on_lost(self) -> None:
        if not self.gone:
            self.gone = True
            self.peer.lost(self)
            while self.asked:
                asked = self.asked.popleft()
                asked.timer.cancel()
                asked.slot.fill(None)

    def close(self) -> None:
        self.wire.close()
        self.on_lost()


class Peer:
    """One client. It connects when it asks, and again after it has lost its connection."""

    def __init__(
        self,
        name: str,
        loop: SimLoop,
        network: Network,
        machine: Machine,
        timeout_ms: int,
        hold: Hold,
        caller: Caller = ANONYMOUS,
    ) -> None:
        """`hold` gets the anomalies of the answers."""
        self.name = name
        self.caller = caller
        self.credentials = None if isinstance(caller, str) else caller
        self.hold = hold
        self._timeout_ms = timeout_ms
        self.loop = loop
        self._network = network
        self.machine = machine
        self._dialogue: _Dialogue | None = None
        self._versions: dict[int, tuple[int, int]] = {}

    @property
    def connected(self) -> bool:
        return self._dialogue is not None

    @property
    def reachable(self) -> bool:
        """True if a process listens there, even one that stands still."""
        return self.machine.serving is not None

    async def connect(self) -> bool:
        """Connect, with ApiVersions as the first request, and log in if that is due.

        False if no process listens, or if the connection was refused or lost.
        """
        if self._dialogue is not None:
            return self.credentials is None or await self.credentials.prove(self)
        if self.machine.serving is None:
            await self.sleep_us(_CONNECT_AGAIN_US)
            return False
        dialogue = self._dialogue = _Dialogue(self, self._network, self.machine)
        response = await self._send(api_versions_request(), 4)
        if response is None or self._dialogue is not dialogue:
            return False
        dialogue.link.learn(response)
        return self.credentials is None or await self.credentials.prove(self)

    async def ask(self, request: Any, *, most: int = 32767, timeout_ms: int | None = None) -> Any:
        """Ask; return the answer, or None if the connection was lost or the answer is late (then it is closed)."""
        if not await self.connect():
            return None
        return await self.send(request, most=most, timeout_ms=timeout_ms)

    def send(
        self, request: Any, *, most: int = 32767, timeout_ms: int | None = None, answered: bool = True
    ) -> Slot[Any]:
        """Send without waiting; the slot gets the answer.

        The slot is filled at once if there is no connection, or if no answer is due.
        """
        dialogue = self._dialogue
        if dialogue is None or not dialogue.link.versions:
            return _full(None)
        api = api_of(type(request))
        return self._send(request, dialogue.link.choose(api, most=most), timeout_ms, answered=answered)

    def close(self) -> None:
        if self._dialogue is not None:
            self._dialogue.close()

    def lost(self, dialogue: _Dialogue) -> None:
        if self._dialogue is dialogue:
            self._dialogue = None
            if self.credentials is not None:
                self.credentials.lost(self, dialogue.login.stage)

    async def sleep_us(self, delay_us: int) -> None:
        slot: Slot[None] = Slot()
        self.loop.call_after_us(delay_us, lambda: slot.fill(None))
        await slot

    def _send(self, request: Any, version: int, timeout_ms: int | None = None, *, answered: bool = True) -> Slot[Any]:
        dialogue = self._dialogue
        assert dialogue is not None
        kind = type(request)
        api = api_of(kind)
        _, frame = dialogue.link.request(api, request, version, response_of(kind), answered=answered)
        slot: Slot[Any] = Slot()
        if answered:
            patience_ms = self._timeout_ms if timeout_ms is None else timeout_ms
            timer = self.loop.call_later(patience_ms, dialogue.close)
            question = asked(self.machine, request)
            dialogue.asked.append(_Asked(slot, timer, kind, self.loop.now_us, question))
        else:
            slot.fill(None)
        dialogue.wire.write(bytes(frame))
        return slot


def _full(value: Any) -> Slot[Any]:
    slot: Slot[Any] = Slot()
    slot.fill(value)
    return slot


class Peers:
    """One client of a cluster: its connections to brokers, and the leaders that it was told of.

    In a cluster of one broker it looks up no leaders.
    """

    def __init__(
        self,
        name: str,
        loop: SimLoop,
        network: Network,
        machines: Mapping[BrokerId, Machine],
        timeout_ms: int,
        hold: Hold,
        caller: Caller = ANONYMOUS,
    ) -> None:
        many = len(machines) > 1
        self.by_broker = {
            broker: Peer(
                f"{name}>{broker}" if many else name, loop, network, machines[broker], timeout_ms, hold, caller
            )
            for broker in sorted(machines)
        }
        self._all = list(self.by_broker.values())
        self._at = sum(name.encode()) % len(self._all)
        self._leaders: dict[tuple[str, int], tuple[BrokerId, int]] = {}
        """The known leaders, each with its epoch."""
        self._newest: dict[tuple[bytes, int], int] = {}
        """By topic id and partition, the newest leader epoch so far; older ones are not believed again."""

    @property
    def alone(self) -> bool:
        return len(self._all) == 1

    @property
    def some(self) -> Peer:
        """Ask a broker something that any broker can answer."""
        return self._all[self._at % len(self._all)]

    async def ask(self, request: Any, *, most: int = 32767, timeout_ms: int | None = None) -> Any:
        """Ask any broker; if it does not answer, another is asked the next time."""
        response = await self.some.ask(request, most=most, timeout_ms=timeout_ms)
        if response is None:
            self._at += 1
        return response

    async def sleep_us(self, delay_us: int) -> None:
        await self.some.sleep_us(delay_us)

    def close(self) -> None:
        for peer in self._all:
            peer.close()

    # who leads

    async def leader_id(self, topic: str, partition: int) -> BrokerId | None:
        """The partition's leader as this client knows it; looked up if unknown."""
        if self.alone:
            return next(iter(self.by_broker))
        if (topic, partition) not in self._leaders:
            await self.refresh()
        found = self._leaders.get((topic, partition))
        return None if found is None else found[0]

    def epoch(self, topic: str, partition: int) -> int:
        """The epoch of the leader that we know; -1 if we know none, or the cluster has one broker."""
        found = self._leaders.get((topic, partition))
        return -1 if found is None else found[1]

    async def leader(self, topic: str, partition: int) -> Peer | None:
        found = await self.leader_id(topic, partition)
        return None if found is None else self.by_broker[found]

    def forget(self, topic: str, partition: int) -> None:
        """Forget a leader that refused or did not answer, so that it is looked up again."""
        self._leaders.pop((topic, partition), None)

    async def refresh(self) -> None:
        response = await self.ask(MetadataRequest(topics=None))
        if response is None:
            return
        self._leaders = {}
        stale = False
        for topic in response.topics:
            for part in topic.partitions:
                place = bytes(topic.topic_id), part.partition_index
                if part.leader_epoch < self._newest.get(place, -1):
                    stale = True
                    continue
                self._newest[place] = part.leader_epoch
                if part.leader_id in self.by_broker:
                    self._leaders[topic.name, part.partition_index] = BrokerId(part.leader_id), part.leader_epoch
        self._at += stale  # a broker that does not know of the new epoch yet: another is asked next
