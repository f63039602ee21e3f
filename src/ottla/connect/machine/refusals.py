"""A refusal of a call, with the HTTP status that Kafka's REST interface gives it."""

from __future__ import annotations


class CallRefused(Exception):
    """The call is refused."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


def connector_not_found(name: str) -> CallRefused:
    """No connector has this name."""
    return CallRefused(404, f"Connector {name} not found")
