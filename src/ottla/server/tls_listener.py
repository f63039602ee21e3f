"""TLS of one listener: its context, which follows the files, the share of handshakes a turn, names of certificates."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from ottla.access.names import ANONYMOUS, UnknownName, distinguished_name, mapping
from ottla.server.tls_socket import SCRATCH_BYTES, TlsSocket
from ottla.tls.contexts import FollowedContext, ServerContext, server_context
from ottla.tls.settings import TlsSettings

HANDSHAKES_A_TURN = 16
"""The handshakes of a listener that go a step on in one turn of the loop: 25 ms with the slowest keys."""

log = logging.getLogger("ottla.listener")


class NoPrincipal(ConnectionError):
    """A certificate that belongs to nobody here."""


class TlsListener:
    """The parts that the channels of a listener with TLS share. StoreUnreadable if its keys cannot be used."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, settings: TlsSettings, rules: str) -> None:
        self._loop = loop
        self._name = name
        self._user = mapping(rules)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._left = HANDSHAKES_A_TURN
        self._followed = FollowedContext(settings, server_context, lambda why: log.warning("%s: %s", name, why))

    @property
    def certificate_hash(self) -> bytes:
        """The SHA-256 of the certificate that new connections are shown."""
        context = self._followed.context
        assert isinstance(context, ServerContext)
        return context.certificate_hash

    def over(self, sock: socket.socket, shaken: Callable[[], None]) -> TlsSocket:
        """TLS over an accepted socket; `shaken` is called once its handshake is done."""
        return TlsSocket(sock, lambda: self._followed.context, self._scratch, self._may_shake, shaken)

    def follow(self) -> None:
        """Look whether the files have changed; called now and then."""
        if self._followed.follow():
            log.info("%s: new connections have the certificates that were just read", self._name)

    def principal(self, tls: TlsSocket) -> str:
        """The owner of the certificate that was shown; NoPrincipal if no rule gives it a name."""
        try:
            subject = tls.peer_subject()
        except ValueError as fault:
            raise NoPrincipal(f"the client's certificate cannot be read: {fault}") from None
        if not subject:
            return ANONYMOUS
        try:
            name = distinguished_name(subject)
        except UnknownName as fault:
            raise NoPrincipal(str(fault)) from None
        user = self._user(name)
        if not user:
            raise NoPrincipal(f"no rule of ssl.principal.mapping.rules gives {name} a name")
        return f"User:{user}"

    def _may_shake(self) -> bool:
        if self._left == HANDSHAKES_A_TURN:
            self._loop.call_soon(self._next_turn)
        if not self._left:
            return False
        self._left -= 1
        return True

    def _next_turn(self) -> None:
        self._left = HANDSHAKES_A_TURN
