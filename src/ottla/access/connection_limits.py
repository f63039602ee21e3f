"""Limits how many connections there may be, and how fast new ones come, as Kafka's ConnectionQuotas does. Pure.

Unlike Apache Kafka, which leaves them in the backlog, connections above `max.connections` are closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from ottla.access.quotas import SAMPLE_MS, Rate
from ottla.config.connection_limits import UNLIMITED, ListenerLimits
from ottla.kernel.quotas import CONNECTION_CREATION_RATE, DEFAULT, QuotaEntity

MANY = 10_000
"""From so many addresses on, those from which nothing came lately are forgotten once a second."""
_BROKER = ""
"""The name under which the rate of the broker is kept; no listener has it."""


class IpLimits(NamedTuple):
    """The limits of addresses; `overrides` and `quotas` are those of single ones."""

    connections: int = UNLIMITED
    overrides: Mapping[str, int] = {}
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}


class RefusedConnection(NamedTuple):
    """A connection that is closed, after some time."""

    limit: str
    after_ms: int = 0


class ConnectionLimits:
    """Counts the connections of all listeners. Their limits are asked for at each connection, as they may change."""

    def __init__(
        self,
        broker: Callable[[], ListenerLimits],
        of_ips: Callable[[], IpLimits],
        listeners: Mapping[str, ListenerLimits],
        *,
        between_brokers: str = "",
    ) -> None:
        """The limits of the broker leave the listener `between_brokers` alone, if it is not the only one."""
        self._broker, self._of_ips, self._listeners = broker, of_ips, dict(listeners)
        self._exempt = between_brokers if len(self._listeners) > 1 else ""
        self._open: Counter[str] = Counter()
        self._open_of_ip: Counter[str] = Counter()
        self._rates = {name: Rate() for name in (_BROKER, *self._listeners)}
        self._rates_of_ips: dict[str, Rate] = {}
        self._looked_ms = 0
        """The time at which idle addresses were last looked for."""
        self.refused: Counter[tuple[str, str]] = Counter()
        """Connections that were refused, by listener and limit."""
        self.delayed_ms: Counter[str] = Counter()
        """The time for which listeners have not accepted, as connections came too fast."""

    def delay_ms(self, listener: str, now_ms: int) -> int:
        """Count a new connection; the time after which it may go on: a second at the most."""
        waits = []
        for name, limits in self._rated(listener):
            rate = self._rates[name]
            rate.add(1, now_ms)
            waits.append(_over_ms(rate, limits.per_second, now_ms))
        self.delayed_ms[listener] += max(waits)
        return max(waits)

    def refusal(self, listener: str, host: str, now_ms: int) -> RefusedConnection | None:
        """The limit that a connection breaks; None if it may be served."""
        found = self._refusal(listener, address(host), now_ms)
        if found is not None:
            self.refused[listener, found.limit] += 1
        return found

    def _refusal(self, listener: str, ip: str, now_ms: int) -> RefusedConnection | None:
        if self._open[listener] >= self._listeners[listener].connections:
            return RefusedConnection("max.connections of the listener")
        if listener != self._exempt and self._open.total() >= self._broker().connections:
            return RefusedConnection("max.connections")
        of_ips = self._of_ips()
        if (after_ms := self._over_rate(listener, ip, of_ips.quotas, now_ms)) > 0:
            return RefusedConnection(CONNECTION_CREATION_RATE, after_ms)
        if self._open_of_ip[ip] >= of_ips.overrides.get(ip, of_ips.connections):
            return RefusedConnection(
                "max.connections.per.ip.overrides" if ip in of_ips.overrides else "max.connections.per.ip"
            )
        return None

    def opened(self, listener: str, host: str) -> None:
        self._open[listener] += 1
        self._open_of_ip[address(host)] += 1

    def closed(self, listener: str, host: str) -> None:
        ip = address(host)
        self._open[listener] -= 1
        self._open_of_ip[ip] -= 1
        if not self._open_of_ip[ip]:
            del self._open_of_ip[ip]

    def _over_rate(self, listener: str, ip: str, quotas: Mapping[QuotaEntity, Mapping[str, float]], now_ms: int) -> int:
        """Count a connection of an address; one that comes too fast is counted nowhere, as in Kafka."""
        limit = _first(quotas.get(QuotaEntity(ip=name), {}).get(CONNECTION_CREATION_RATE) for name in (ip, DEFAULT))
        if limit is None:
            return 0
        if len(self._rates_of_ips) >= MANY and now_ms - self._looked_ms >= SAMPLE_MS:
            self._looked_ms = now_ms
            self._rates_of_ips = {name: rate for name, rate in self._rates_of_ips.items() if not rate.is_idle(now_ms)}
        rate = self._rates_of_ips.setdefault(ip, Rate())
        rate.add(1, now_ms)
        if after_ms := _over_ms(rate, limit, now_ms):
            for counted in (rate, *(self._rates[name] for name, _ in self._rated(listener))):
                counted.add(-1, now_ms)
        return after_ms

    def _rated(self, listener: str) -> list[tuple[str, ListenerLimits]]:
        """The rates that a connection of a listener counts for."""
        own = (listener, self._listeners[listener])
        return [own] if listener == self._exempt else [own, (_BROKER, self._broker())]


def address(host: str) -> str:
    """An address in the form in which limits have it: an IPv4 address that came over IPv6 is an IPv4 address."""
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return str((isinstance(ip, IPv6Address) and ip.ipv4_mapped) or ip)


def _over_ms(rate: Rate, limit: float, now_ms: int) -> int:
    if limit >= UNLIMITED:
        return 0
    return min(rate.over_ms(max(limit, 1e-9), 0, now_ms), SAMPLE_MS)


def _first(found: Iterable[float | None]) -> float | None:
    return next((each for each in found if each is not None), None)
