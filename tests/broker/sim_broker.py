"""One broker in virtual time, with clients that send bytes to it, for tests that need a whole node."""

from __future__ import annotations

from collections.abc import Coroutine
from struct import Struct
from typing import Any, TypeVar

from plain_requests import a_creation

from ottla.coordination.memory import MemoryStore
from ottla.kernel.ids import BrokerId
from ottla.kernel.story import run_story
from ottla.sim.loop import SimLoop
from ottla.sim.machine import Machine, MachineRun
from ottla.sim.network import Network, Wire
from ottla.sim.peer import PATIENT_MS, Peer

T = TypeVar("T")
_LENGTH = Struct(">i")


class RawClient:
    """A client without a library: the bytes that its socket receives."""

    def __init__(self, place: SimBroker) -> None:
        self.received = b""
        self.lost = False
        self._place = place
        assert place.machine.serving is not None
        self.wire: Wire = place.network.connect(place.machine.serving, self, "raw")

    def on_bytes(self, piece: bytes) -> None:
        self.received += piece

    def on_lost(self) -> None:
        self.lost = True

    def send(self, *frames: bytes) -> None:
        """Send frames, given without their lengths, all at once."""
        self.wire.write(b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames))
        self._place.loop.run_for(50)

    def answers(self) -> list[bytes]:
        """The complete answers so far, without their lengths."""
        found, at = [], 0
        while at + 4 <= len(self.received):
            (size,) = _LENGTH.unpack_from(self.received, at)
            found.append(self.received[at + 4 : at + 4 + size])
            at += 4 + size
        return found


class SimBroker:
    """A machine with its broker serving."""

    def __init__(self, *, more_directories: tuple[str, ...] = (), **options: str) -> None:
        """`more_directories`: log directories beside "/data"."""
        self.loop = SimLoop(1)
        self.store = MemoryStore()
        self.network = Network(self.loop, 1, (10, 50))
        texts = {"node.id": "1", "broker.host": "sim", "listeners": "PLAINTEXT://broker-1:9092"}
        texts |= {name.replace("_", "."): text for name, text in options.items()}
        self.machine = Machine(BrokerId(1), self.loop, self.store, 1, texts)
        self.machine.more_directories = more_directories
        self.start()

    def start(self) -> None:
        self.machine.start()
        assert self.loop.run_until(lambda: self.machine.serving is not None, within_ms=5000)

    def restart(self, *, clean: bool) -> None:
        if clean:
            self.here.stop(clean=True).result()
        self.machine.vanish()
        if not clean:
            self.machine.disk.lose_unsynced()
        self.start()

    @property
    def here(self) -> MachineRun:
        current = self.machine.current
        assert current is not None
        return current

    def peer(self, name: str = "test") -> Peer:
        return Peer(name, self.loop, self.network, self.machine, PATIENT_MS, list)

    def ask(self, request: Any, *, most: int = 32767) -> Any:
        """Send one request over a connection of its own; return the answer."""
        peer = self.peer()
        answer = self.wait_for(peer.ask(request, most=most))
        peer.close()
        return answer

    def create_topic(self, name: str = "t", partitions: int = 1, **configs: str) -> bytes:
        """Make a topic; return its id."""
        (made,) = self.ask(a_creation(name, partitions, 1, **configs)).topics
        assert made.error_code == 0, made
        return bytes(made.topic_id)

    def wait_for(self, story: Coroutine[Any, None, T], within_ms: int = 5000) -> T:
        slot = run_story(story)
        assert self.loop.run_until(lambda: slot.full, within_ms=within_ms)
        return slot.result()
