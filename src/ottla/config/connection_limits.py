"""The options about how many connections there may be, as limits of a listener and of addresses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from ottla.config.broker import INT_MAX, BrokerConfig
from ottla.config.option import ConfigError

OF_LISTENERS = ("max.connections", "max.connection.creation.rate")
"""The options that a listener may have of its own; a listener without them has the broker's."""


UNLIMITED = INT_MAX


class ListenerLimits(NamedTuple):
    """The limits of one listener, or of the broker: connections at a time, and new ones in a second."""

    connections: int = UNLIMITED
    per_second: int = UNLIMITED


def listener_limits(texts: Mapping[str, str]) -> ListenerLimits:
    """The limits of a listener by its options (`security.texts_of`)."""
    config = BrokerConfig.of_texts({name: texts[name] for name in OF_LISTENERS if name in texts})
    return ListenerLimits(config.max_connections, config.max_connection_creation_rate)


def limits_problems(listener: str, texts: Mapping[str, str]) -> list[str]:
    """All that is wrong with the limits of a listener."""
    try:
        listener_limits(texts)
    except ConfigError as fault:
        return [f"listener {listener}: {wrong}" for wrong in fault.problems]
    return []


@lru_cache(maxsize=8)
def overrides_of(text: str) -> Mapping[str, int]:
    """The limits of single addresses in `max.connections.per.ip.overrides`."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        ip, _, count = part.rpartition(":")
        found[str(ip_address(ip.strip("[]")))] = int(count)
    return found
