"""Quotas as values: whose rates are limited, and by which names. Names are Kafka's."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT = ""
"""As a name: everything of the type that has no quota of its own. No user, client id or address is empty."""
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
CLIENT_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The quotas of users and client ids."""
IP_KEYS = (CONNECTION_CREATION_RATE,)
WHOLE = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE)
"""The quotas that are whole numbers."""


class QuotaEntity(NamedTuple):
    """The clients that a quota is about. A part that is None does not count."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """The names by Kafka's types."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name for kind, name in named.items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" if name else f"default {kind}" for kind, name in self.parts.items())


def in_order(entity: QuotaEntity) -> tuple[tuple[str, str], ...]:
    """The key by which entities are sorted."""
    return tuple(entity.parts.items())
