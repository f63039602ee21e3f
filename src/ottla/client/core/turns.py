"""The order in which brokers are asked what any of them can answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.client.model import Broker, Destination


class Turns:
    """Brokers in turn, but last those that owe an answer: of them, last the one that has owed it longest.

    One that hangs so takes the time of a request once, and not of every request that comes to its turn.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._owing_since: dict[Destination, float] = {}

    def order(self, brokers: Iterable[Broker], bootstrap: Sequence[Destination]) -> list[Destination]:
        """The known brokers, and then the bootstrap addresses (KIP-899), as they should be asked."""
        known = [broker.destination() for broker in brokers]
        if known:
            self._turn += 1
            start = self._turn % len(known)
            known = known[start:] + known[:start]
        never = float("inf")
        return sorted(dict.fromkeys([*known, *bootstrap]), key=lambda where: -self._owing_since.get(where, never))

    def asked(self, where: Destination, now_ms: float) -> None:
        """Note that a broker owes an answer, unless it has owed one before."""
        self._owing_since.setdefault(where, now_ms)

    def answered(self, where: Destination) -> None:
        self._owing_since.pop(where, None)
