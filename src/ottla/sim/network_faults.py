"""Faults of the simulated network: lost, late and stalled bytes, hosts that do not reach or that refuse each other.

faults.py draws the times; network.py carries the faults out.
"""

from __future__ import annotations

from ottla.sim.network import CLIENTS
from ottla.sim.striking import Striking

_STALLS_MS = (200, 4000)


class NetworkFaults:
    """Part of `Faults`. Each method returns True if its fault has struck now."""

    def __init__(self, faults: Striking) -> None:
        self._faults = faults
        self._world = faults.world
        self._random = faults.random

    def cut_connections(self) -> bool:
        return self._world.network.cut_some(self._random.choice((0.3, 1.0))) > 0

    def slow_network(self) -> bool:
        network = self._world.network
        network.delay_us = (10_000, self._random.choice((100_000, 400_000)))
        self._faults.for_a_while(lambda: setattr(network, "delay_us", self._world.plan.network_us))
        return True

    def lossy_network(self) -> bool:
        network = self._world.network
        network.loss = self._random.choice((0.02, 0.1, 0.3))
        self._faults.for_a_while(lambda: setattr(network, "loss", 0.0))
        return True

    def stalled_connections(self) -> bool:
        """Stall connections: their bytes arrive long after later ones of others, perhaps at the next process."""
        stalled = self._world.network.stall_some(self._random.choice((0.2, 0.5)))

        def end() -> None:
            for wire in stalled:
                wire.stalled = False
                wire.go_on()

        self._world.loop.call_later(self._random.randint(*_STALLS_MS), end)
        return bool(stalled)

    def partition(self) -> bool:
        """Cut one broker off from the other brokers, from the clients, or from both, but not from its store."""
        machine = self._faults.pick()
        others = [other.host for other in self._world.machines.values() if other is not machine]
        apart = self._random.choice((others, [CLIENTS], [*others, CLIENTS]))
        self.block([way for host in apart for way in ((machine.host, host), (host, machine.host))])
        return True

    def one_way_cut(self) -> bool:
        hosts = [machine.host for machine in self._world.machines.values()]
        sender, receiver = self._random.sample([*hosts, CLIENTS], 2)
        self.block([(sender, receiver)])
        return True

    def refused_connections(self) -> bool:
        """Let the others take a live broker for dead: their connections to it end, and new ones are refused."""
        network, machine = self._world.network, self._faults.pick()
        others = [other.host for other in self._world.machines.values() if other is not machine]
        for host in others:
            network.refuse(host, machine.host)

        def end() -> None:
            for host in others:
                network.admit(host, machine.host)

        self._faults.for_a_while(end)
        return True

    def block(self, ways: list[tuple[str, str]]) -> None:
        """Drop packets from these senders to these receivers for a while."""
        network = self._world.network
        for sender, receiver in ways:
            network.block(sender, receiver)

        def end() -> None:
            for sender, receiver in ways:
                network.unblock(sender, receiver)

        self._faults.for_a_while(end)
