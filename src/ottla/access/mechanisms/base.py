"""The parts that every mechanism shares: the two sides' steps, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class PeerRefused(Exception):
    """The other side is not who it says, or does not speak the mechanism. The text is for this side's log.

    `told` may be said to the other side: it tells nothing of which users there are.
    """

    def __init__(self, why: str, *, told: str | None = None) -> None:
        super().__init__(why)
        self.told = told


@dataclass(frozen=True, slots=True)
class Proved:
    """The end of a server's exchange: who the other side is, and the last bytes for it."""

    principal: str
    """As in ACLs: `User:alice`."""
    answer: bytes = b""
    expires_ms: int | None = None
    """The wall time in milliseconds at which what was shown expires; None: it does not."""
    by_token: bool = False
    """True if a delegation token was shown: it makes no further tokens."""


@dataclass(frozen=True, slots=True)
class SlowHash:
    """A step has to wait: call `work` off the loop, then take the step again with the same bytes."""

    work: Callable[[], None]


class ServerSide(Protocol):
    """The broker's side of one exchange."""

    def step(self, data: bytes) -> bytes | Proved | SlowHash:
        """Take the client's bytes; the next challenge, or the end. PeerRefused ends the exchange."""


class ClientSide(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The bytes that begin the exchange."""

    def step(self, data: bytes) -> bytes | None:
        """Take the broker's bytes; the next ones, None at the end. PeerRefused if it is not who it should be."""
