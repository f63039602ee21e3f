"""Several brokers in virtual time on one metadata log, joined by a network, for tests that need a cluster."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from plain_requests import a_creation

from ottla.broker.node import Node
from ottla.coordination.memory import MemoryStore
from ottla.kernel.ids import BrokerId
from ottla.kernel.story import Slot, run_story
from ottla.sim.loop import SimLoop
from ottla.sim.machine import PORT, Machine, MachineRun
from ottla.sim.network import Network
from ottla.sim.peer import PATIENT_MS, Peer

T = TypeVar("T")


class SimCluster:
    """Brokers 1 to `brokers`, started one after the other, all serving. `{}` in an option stands for the number."""

    def __init__(
        self, brokers: int = 3, *, session_ms: int = 0, more_directories: tuple[str, ...] = (), **options: str
    ) -> None:
        """`session_ms` is the time until the store reports a death; with 0 it does so at once.

        `more_directories`: log directories of every broker beside "/data".
        """
        self.loop = SimLoop(1)
        self.store = MemoryStore()
        self.network = Network(self.loop, 1, (10, 50))
        self.machines: dict[int, Machine] = {}
        said = {name.replace("_", "."): text for name, text in options.items()}
        for number in range(1, brokers + 1):
            texts = {"node.id": str(number), "broker.host": f"host-{number}"}
            texts |= {"listeners": f"PLAINTEXT://broker-{number}:{PORT}"}
            texts |= {name: text.replace("{}", str(number)) for name, text in said.items()}
            machine = Machine(BrokerId(number), self.loop, self.store, number, texts)
            machine.session_us = session_ms * 1000
            machine.more_directories = more_directories
            machine.join_network(self.network, self.find)
            self.machines[number] = machine
            self.start(number)
        self.until(lambda: all(len(self.node(each).metadata.live_brokers()) == brokers for each in self.machines))

    def find(self, host: str, port: int) -> MachineRun | None:
        at = {(machine.host, PORT): machine.serving for machine in self.machines.values()}
        return at.get((host, port))

    def start(self, number: int) -> None:
        self.machines[number].start()
        self.until(lambda: self.machines[number].serving is not None)

    def kill(self, number: int) -> None:
        """Kill the process; its writes stay in the page cache."""
        self.machines[number].vanish()

    def node(self, number: int) -> Node:
        current = self.machines[number].current
        assert current is not None
        return current.node

    def others(self, number: int) -> list[int]:
        """The numbers of all brokers but one."""
        return [each for each in self.machines if each != number]

    def peer(self, number: int, name: str = "test") -> Peer:
        """A client of one broker."""
        return Peer(name, self.loop, self.network, self.machines[number], PATIENT_MS, list)

    def ask(self, number: int, request: Any, *, most: int = 32767) -> Any:
        peer = self.peer(number)
        answer = self.wait_for(peer.ask(request, most=most))
        peer.close()
        return answer

    def create_topic(
        self, name: str = "t", partitions: int = 1, replicas: int = 1, *, by: int = 1, **configs: str
    ) -> bytes:
        """Ask one broker to make a topic; return its id."""
        (made,) = self.ask(by, a_creation(name, partitions, replicas, **configs)).topics
        assert made.error_code == 0, made
        return bytes(made.topic_id)

    def until(self, holds: Any, within_ms: int = 10_000) -> None:
        assert self.loop.run_until(holds, within_ms=within_ms)

    def wait_for(self, story: Coroutine[Any, None, T], within_ms: int = 10_000) -> T:
        return self.end_of(run_story(story), within_ms)

    def end_of(self, slot: Slot[T], within_ms: int = 10_000) -> T:
        self.until(lambda: slot.full, within_ms)
        return slot.result()
