"""Judges the options about listeners together: their names as Kafka reads them, and which must not come up.

`resolve.py` asks here; the options themselves are declared in `broker.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_PLAINTEXT = "PLAINTEXT"
_PROTOCOLS = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")
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
    protocols = {}
    for part in texts.get("listener.security.protocol.map", "").upper().split(","):
        name, colon, protocol = part.rpartition(":")
        if colon:
            protocols[name.strip()] = protocol.strip()
    problems = []
    given = tuple(listener.strip() for listener in texts.get("listeners", "").split(",") if "://" in listener)
    for listener in without(texts.get("controller.listener.names", ""), named_as_kafka_does(given)):
        name = listener.partition("://")[0]
        protocol = protocols.get(name, name if name in (*_PROTOCOLS, _PLAINTEXT) else "")
        if not protocol:
            problems.append(
                f"listeners: {listener} has no protocol in listener.security.protocol.map: add {name}:PLAINTEXT there"
            )
        elif protocol != _PLAINTEXT:
            problems.append(f"listeners: {listener} asks for {protocol}, which is not there yet")
    return problems


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
