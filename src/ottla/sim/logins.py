"""A guest's logins: by SCRAM with the newest of its delegation tokens (KIP-48), at each broker that it asks.

A guest that renews its sessions logs in again on the same connection before a session ends (KIP-368). Another one goes
on asking after the end of its session, for which its connection is closed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.access.login import LoginStage
from ottla.access.mechanisms.scram import SHA_256, ScramClient
from ottla.kernel.errors import ErrorCode
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.messages.sasl_handshake import SaslHandshakeRequest
from ottla.sim.checkers.history import LoggedIn, LoginRefused, Served, SessionEnded

if TYPE_CHECKING:
    from ottla.sim.peer import Peer
    from ottla.sim.setting import Guarded

LOGGED_IN, RENEWED = "guest logged in", "session of a guest renewed"
LOGIN_REFUSED, SESSION_ENDED = "login of a guest refused", "session of a guest ended"
LOGIN_ACTS = (LOGGED_IN, RENEWED, LOGIN_REFUSED, SESSION_ENDED)
_OF_LOGINS = (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest)
_RENEWS_SHARE = 0.6
_LEAVES_SHARE = 0.03
"""The share of requests before which a guest closes its connection, and must log in anew."""
_RENEWED_AT_PERCENT = 60
_SOONEST_US = 1_100_000
"""A broker does not let a session be renewed within a second (KIP-368)."""
_AGAIN_US = 30_000
_NONCE_BYTES = 24


class Token(NamedTuple):
    """A delegation token as its guest has it."""

    token_id: str
    secret: bytes

    @property
    def password(self) -> str:
        return base64.b64encode(self.secret).decode()


class _Session(NamedTuple):
    name: str
    renewed_at_us: int


class _Shown(NamedTuple):
    """The moment at which a client shows its proof, and the broker's wall clock then."""

    at_us: int
    wall_ms: int
    clock_changes: int


class Logins:
    """The logins and the sessions of one guest; the `peer.Credentials` of its clients."""

    def __init__(self, guest: str, setting: Guarded, count: Callable[[str], None]) -> None:
        self.token: Token | None = None
        """The newest token; None before the first."""
        self._guest = guest
        self._setting = setting
        self._count = count
        self._random = Random(f"logins-{guest}-{setting.plan.seed}")
        self._renews = self._random.random() < _RENEWS_SHARE
        self._sessions: dict[Peer, _Session] = {}
        self._begun = 0

    async def prove(self, peer: Peer) -> bool:
        session = self._sessions.get(peer)
        if session is not None and self._random.random() < _LEAVES_SHARE:
            peer.close()
            return False
        if session is not None and (not self._renews or self._setting.loop.now_us < session.renewed_at_us):
            return True
        if self.token is None:
            await peer.sleep_us(_AGAIN_US)
            return False
        return await self._log_in(peer, self.token)

    def answered(self, peer: Peer, request: type[Any], sent_us: int) -> None:
        if request not in _OF_LOGINS:
            self._setting.saw(Served(self._setting.loop.now_us, self._sessions[peer].name, sent_us))

    def lost(self, peer: Peer, stage: LoginStage) -> None:
        session = self._sessions.pop(peer, None)
        if session is not None and stage is LoginStage.EXPIRED:
            self._setting.saw(SessionEnded(self._setting.loop.now_us, session.name))
            self._count(SESSION_ENDED)

    async def _log_in(self, peer: Peer, token: Token) -> bool:
        """Go through the steps of the mechanism; a guest that is refused closes its connection."""
        began = shown = self._now(peer)
        answer = await peer.send(SaslHandshakeRequest(mechanism=SHA_256))
        nonce = base64.b64encode(self._random.randbytes(_NONCE_BYTES)).decode()
        side = ScramClient(SHA_256, token.token_id, token.password, nonce, token=True)
        data: bytes | None = side.first()
        while answer is not None and not answer.error_code and data is not None:
            shown = self._now(peer)
            answer = await peer.send(SaslAuthenticateRequest(auth_bytes=data))
            if answer is not None and not answer.error_code:
                data = side.step(bytes(answer.auth_bytes))
        if answer is None:
            return False
        if answer.error_code:
            self._refused(token, ErrorCode(answer.error_code))
            peer.close()
            return False
        self._began(peer, token, began.at_us, shown, answer.session_lifetime_ms)
        return True

    def _now(self, peer: Peer) -> _Shown:
        return _Shown(self._setting.loop.now_us, peer.machine.wall_ms, peer.machine.clock_changes)

    def _refused(self, token: Token, error: ErrorCode) -> None:
        setting = self._setting
        latest_ms = setting.latest_wall_ms()
        setting.saw(LoginRefused(setting.loop.now_us, self._guest, token.token_id, latest_ms, int(error)))
        self._count(LOGIN_REFUSED)

    def _began(self, peer: Peer, token: Token, asked_us: int, shown: _Shown, lifetime_ms: int) -> None:
        self._count(RENEWED if peer in self._sessions else LOGGED_IN)
        self._begun += 1
        now_us, name = self._setting.loop.now_us, f"{self._guest}/{self._begun}"
        wall_ms = shown.wall_ms if shown.clock_changes == peer.machine.clock_changes else None
        self._setting.saw(LoggedIn(now_us, name, token.token_id, asked_us, shown.at_us, wall_ms, lifetime_ms))
        renewed_after_us = max(lifetime_ms * 1000 * _RENEWED_AT_PERCENT // 100, _SOONEST_US)
        self._sessions[peer] = _Session(name, now_us + renewed_after_us)
