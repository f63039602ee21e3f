"""GSSAPI (RFC 4752): Kerberos tickets. No security layer is taken: encryption is TLS's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.access.mechanisms.base import PeerRefused, Proved, SlowHash
from ottla.tls.kerberos import KerberosFault

NAME = "GSSAPI"
_NO_LAYER = b"\x01\0\0\0"
"""The only layer that is offered and taken: none; and so no size of messages."""


class GssContext(Protocol):
    """A security context of Kerberos; each call may raise KerberosFault, and may wait for a disk or a server."""

    @property
    def complete(self) -> bool:
        """True once both sides know each other."""

    @property
    def initiator(self) -> str:
        """The client's principal: `alice@REALM`."""

    def step(self, token: bytes) -> bytes:
        """Take the other side's token; the next one, empty where none is due."""

    def wrap(self, data: bytes) -> bytes:
        """Protect a message."""

    def unwrap(self, data: bytes) -> bytes:
        """The message, if it was protected by the other side."""


class GssapiServer:
    """The broker's side. `begin` makes its context, `short_name` makes a user's name of a principal, None: of nobody.

    All work is done off the loop.
    """

    def __init__(self, begin: Callable[[], GssContext], short_name: Callable[[str], str | None]) -> None:
        self._begin = begin
        self._short_name = short_name
        self._context: GssContext | None = None
        self._offered = False
        self._outcome: bytes | Proved | PeerRefused | None = None

    def step(self, data: bytes) -> bytes | Proved | SlowHash:
        if self._outcome is None:
            return SlowHash(lambda: self._work(data))
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, PeerRefused):
            raise outcome
        return outcome

    def _work(self, data: bytes) -> None:
        try:
            self._outcome = self._next(data)
        except PeerRefused as fault:
            self._outcome = fault
        except KerberosFault as fault:
            self._outcome = PeerRefused(f"{NAME}: {fault}")

    def _next(self, data: bytes) -> bytes | Proved:
        context = self._context = self._context or self._begin()
        if not context.complete:
            if not data:
                raise PeerRefused(f"{NAME}: no ticket")
            if answer := context.step(data):
                return answer
            if not context.complete:
                raise PeerRefused(f"{NAME}: the exchange stands still")
            data = b""
        if self._offered:
            return self._chosen(context, context.unwrap(data))
        if data:
            raise PeerRefused(f"{NAME}: {len(data)} bytes where none are due")
        self._offered = True
        return context.wrap(_NO_LAYER)

    def _chosen(self, context: GssContext, choice: bytes) -> Proved:
        """The end, with the layer that the client chose.

        The name that it asks for behind that counts for nothing, as in Kafka: kafka-python puts the service's there.
        """
        if len(choice) < 4 or choice[:1] != _NO_LAYER[:1]:
            raise PeerRefused(f"{NAME}: the client asks for a security layer, and none is offered")
        principal = context.initiator
        user = self._short_name(principal)
        if not user:
            raise PeerRefused(f"{NAME}: no rule of sasl.kerberos.principal.to.local.rules gives {principal} a name")
        return Proved(f"User:{user}")


class GssapiClient:
    """The client's side; KerberosFault where there is no ticket."""

    def __init__(self, context: GssContext) -> None:
        self._context = context
        self._is_done = False

    def first(self) -> bytes:
        return self._context.step(b"")

    def step(self, data: bytes) -> bytes | None:
        if self._is_done:
            if data:
                raise PeerRefused(f"{NAME}: the broker answered {len(data)} bytes where nothing is due")
            return None
        try:
            if not self._context.complete:
                return self._context.step(data)
            offered = self._context.unwrap(data)
            if len(offered) != 4 or not offered[0] & _NO_LAYER[0]:
                raise PeerRefused(f"{NAME}: the broker insists on a security layer")
            self._is_done = True
            return self._context.wrap(_NO_LAYER)
        except KerberosFault as fault:
            raise PeerRefused(f"{NAME}: {fault}") from None
