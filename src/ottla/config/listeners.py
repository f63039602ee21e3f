"""Judges the options about listeners together: their names as Kafka reads them, and which must not come up.

`resolve.py` asks here; the options themselves are declared in `broker.py`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_EVERYWHERE = ("0.0.0.0", "[::]", "::")


def named_as_kafka_does(listeners: tuple[str, ...]) -> tuple[str, ...]:
    """The listeners with their names in capitals: to Kafka, ssl:// is the listener SSL."""
    return tuple(name.upper() + sign + address for name, sign, address in (one.partition("://") for one in listeners))


def without(controllers: str, listeners: tuple[str, ...]) -> tuple[str, ...]:
    """The listeners that are not among those of `controller.listener.names`."""
    names = {part.strip().upper() for part in controllers.split(",")}
    return tuple(listener for listener in listeners if listener.partition("://")[0] not in names)


def unsafe_listeners(texts: Mapping[str, str]) -> list[str]:
    """A listener that asks for encryption or authentication must not come up without it.

    One whose name is not in the map may have asked for it under a name that was mistyped there.
    """
    from ottla.config.connection_limits import limits_problems
    from ottla.config.security import (
        PLAINTEXT,
        listener_security,
        protocol_of,
        protocols,
        texts_of,
        unknown_listener_options,
    )

    problems, names = [], []
    given = tuple(listener.strip() for listener in texts.get("listeners", "").split(",") if "://" in listener)
    for listener in without(texts.get("controller.listener.names", ""), named_as_kafka_does(given)):
        name = listener.partition("://")[0]
        names.append(name)
        problems += limits_problems(name, texts_of(texts, name))
        protocol = protocol_of(name, texts)
        if not protocol and name in protocols(texts):
            problems.append(f"listener.security.protocol.map: there is no protocol {protocols(texts)[name]}")
        elif not protocol:
            problems.append(
                f"listeners: {listener} has no protocol in listener.security.protocol.map: add {name}:PLAINTEXT there"
            )
        elif protocol != PLAINTEXT:
            problems += listener_security(texts, name)[1]
    return problems + unknown_listener_options(texts, names or ("PLAINTEXT",))


def host_of(address: str) -> str:
    """The host in HOST:PORT, without brackets; empty for every address."""
    return address.rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """True if a host, by name or address, is reached from its own machine alone."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def with_ports_above(texts: Mapping[str, str], by: int) -> dict[str, str]:
    """The options of a broker whose listeners lie `by` ports above those that the options name; 0 stays a free port."""
    from ottla.config.broker import BrokerConfig

    default = ",".join(BrokerConfig().listeners)
    moved = {
        "listeners": texts.get("listeners", default),
        "advertised.listeners": texts.get("advertised.listeners", ""),
    }
    return {**texts, **{name: _ports_above(text, by) for name, text in moved.items() if by and text}}


def _ports_above(text: str, by: int) -> str:
    parted = (listener.strip().rpartition(":") for listener in text.split(","))
    return ",".join(f"{start}:{int(port) + by if int(port) else 0}" for start, _, port in parted)


def no_room_for(texts: Mapping[str, str], brokers: int) -> str | None:
    """The reason why so many brokers cannot listen one port above the other, or None."""
    highest = with_ports_above(texts, brokers - 1).get("listeners")
    taken = sorted(port for text in (highest or "").split(",") if (port := int(text.rpartition(":")[2] or 0)))
    if any(port > 65535 for port in taken):
        return f"listeners: {brokers} brokers take ports one above the other, and there is none above 65535"
    near = [(low, high) for low, high in pairwise(taken) if high - low < brokers]
    if near:
        low, high = (port - brokers + 1 for port in near[0])
        return (
            f"listeners: ports {low} and {high} leave no room for {brokers} brokers, which take ports one above the "
            f"other: put them {brokers} apart"
        )
    return None


def secured_listeners(texts: Mapping[str, str]) -> list[str]:
    """The listeners among these options that ask for encryption or authentication."""
    from ottla.config.security import PLAINTEXT, protocol_of

    given = tuple(listener.strip() for listener in texts.get("listeners", "").split(",") if "://" in listener)
    return [each for each in named_as_kafka_does(given) if protocol_of(each.partition("://")[0], texts) != PLAINTEXT]


def listeners_at_odds(config: BrokerConfig) -> list[str]:
    """Faults by which clients could not reach the broker.

    A name that is advertised need not be among the listeners: the command line may have replaced those of a file.
    """
    names = [listener.partition("://")[0] for listener in config.listeners]
    problems = []
    if not names:
        problems.append("listeners names none for clients: give NAME://HOST:PORT")
    if len(set(names)) < len(names):
        problems.append(f"listeners: each listener must have a different name, not {', '.join(config.listeners)}")
    problems += [
        f"advertised.listeners cannot use the nonroutable meta-address in {advertised}: use an address that clients "
        "can reach"
        for advertised in config.advertised_listeners
        if advertised.partition("://")[2].rpartition(":")[0] in _EVERYWHERE
    ]
    return problems
