"""Counts the connections of all listeners together, against the limits that are in effect at that moment."""

from __future__ import annotations

from collections.abc import Callable


class ConnectionCount:
    """`refusal` names the limit that a further connection would break."""

    __slots__ = ("_limits", "_of_host", "_open")

    def __init__(self, limits: Callable[[], tuple[int, int]]) -> None:
        """`limits`: max.connections and max.connections.per.ip, asked at each connection as both may change."""
        self._limits = limits
        self._of_host: dict[str, int] = {}
        self._open = 0

    def refusal(self, host: str) -> str | None:
        most, most_of_host = self._limits()
        if self._open >= most:
            return "max.connections"
        return "max.connections.per.ip" if self._of_host.get(host, 0) >= most_of_host else None

    def opened(self, host: str) -> None:
        self._open += 1
        self._of_host[host] = self._of_host.get(host, 0) + 1

    def closed(self, host: str) -> None:
        self._open -= 1
        left = self._of_host[host] - 1
        if left:
            self._of_host[host] = left
        else:
            del self._of_host[host]
