"""The bounds of a server: how much a client may send, how long it may take, how many there may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """A client that goes beyond one is refused or cut off, so that it holds up nobody else."""

    body_bytes: int = 4 << 20
    """A longer body is refused by 413."""
    head_bytes: int = 16 << 10
    """A longer request line with its headers is refused by 431."""
    request_s: float = 60.0
    """A request that is not whole after this time is refused by 408."""
    idle_s: float = 75.0
    """A connection without a request for this time is closed."""
    send_s: float = 30.0
    """A client that takes no piece of an answer for this time is cut off."""
    connections: int = 1_000
    """With more, the connection that has waited longest for a request is closed; if all are answered, 503."""
    stop_s: float = 5.0
    """Requests under way have this time to end when the server stops."""
