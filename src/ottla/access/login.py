"""The states of a connection on a listener with SASL, until it has a principal and after: one table, one file.

Kafka's order (KIP-43, 152, 368): ApiVersions at most once, SaslHandshake, the mechanism's tokens; then everything. A
session that expires begins again with SaslHandshake. `broker/requests/gate.py` drives it and encodes its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.access.mechanisms.base import PeerRefused, Proved, ServerSide, SlowHash
from ottla.kernel.errors import ErrorCode

_AGAIN_AFTER_MS = 1000
"""A session cannot be renewed twice within this time."""


class LoginStage(Enum):
    """The proofs that a connection has shown so far."""

    UNPROVEN = "nothing: it may ask for ApiVersions once, and begin"
    PROVING = "a mechanism: its tokens come"
    PROVEN = "its principal: everything may come"
    REPROVING = "its principal once, whose session is being renewed: its tokens come"
    EXPIRED = "its principal once: only a new beginning may come"
    ENDED = "a refusal: nothing may come any more"


API_VERSIONS, HANDSHAKE, AUTHENTICATE, OTHER = "ApiVersions", "SaslHandshake", "SaslAuthenticate", "other requests"
MAY_BEGIN: Mapping[LoginStage, frozenset[str]] = {
    LoginStage.UNPROVEN: frozenset({API_VERSIONS, HANDSHAKE}),
    LoginStage.PROVING: frozenset({AUTHENTICATE}),
    LoginStage.PROVEN: frozenset({API_VERSIONS, HANDSHAKE, OTHER}),
    LoginStage.REPROVING: frozenset({AUTHENTICATE}),
    LoginStage.EXPIRED: frozenset({HANDSHAKE}),
    LoginStage.ENDED: frozenset(),
}
"""The requests that may begin in each state; every other one ends the connection."""
_BEGUN = {
    LoginStage.UNPROVEN: LoginStage.PROVING,
    LoginStage.PROVEN: LoginStage.REPROVING,
    LoginStage.EXPIRED: LoginStage.REPROVING,
}


@dataclass(frozen=True, slots=True)
class Handshaken:
    """The answer to SaslHandshake."""

    code: ErrorCode
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stepped:
    """The answer to one token."""

    code: ErrorCode
    answer: bytes = b""
    message: str | None = None
    lifetime_ms: int = 0
    log: str | None = None
    """The reason of a refusal, for the broker's log alone."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One mechanism that a listener offers."""

    begin: Callable[[], ServerSide]
    reauth_ms: int = 0
    """`connections.max.reauth.ms`: the longest session; 0: it does not expire by that."""


class Login:
    """One connection's way to its principal. `principal` is set by `_proved` alone."""

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self._mechanisms = mechanisms
        self.stage = LoginStage.UNPROVEN
        self.principal: str | None = None
        self.by_token = False
        self.raw = False
        """True while tokens come without a header: after SaslHandshake version 0."""
        self.expires_mono_ms: int | None = None
        """The monotonic time at which the session ends; None: never."""
        self._name = ""
        self._side: ServerSide | None = None
        self._asked_versions = False
        self._began_mono_ms: int | None = None

    def expire(self, mono_ms: int) -> None:
        """Note the time: a session that is over is."""
        if self.stage is LoginStage.PROVEN and self.expires_mono_ms is not None and mono_ms >= self.expires_mono_ms:
            self.stage = LoginStage.EXPIRED

    def may_begin(self, request: str) -> bool:
        """True if a request of this kind may begin now; ApiVersions only once before the proof."""
        if request == API_VERSIONS and self.stage is LoginStage.UNPROVEN:
            first, self._asked_versions = not self._asked_versions, True
            return first
        return request in MAY_BEGIN[self.stage]

    def unsupported_versions(self) -> None:
        """Take back that ApiVersions was asked: it was refused for its version or its content."""
        self._asked_versions = False

    def end(self) -> None:
        self.stage = LoginStage.ENDED

    def handshake(self, mechanism: str, version: int, mono_ms: int) -> Handshaken:
        """Begin with a mechanism; the state must allow it. A refusal ends what is not proven."""
        offered = tuple(self._mechanisms)
        if self.stage is LoginStage.PROVEN and not self._may_renew(mono_ms):
            return Handshaken(ErrorCode.ILLEGAL_SASL_STATE, offered)
        found = self._mechanisms.get(mechanism)
        if found is None:
            self.end()
            return Handshaken(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
        if self.principal is not None and mechanism != self._name:
            self.end()
            return Handshaken(ErrorCode.SASL_AUTHENTICATION_FAILED, offered)
        self._side = found.begin()
        self._name = mechanism
        self._began_mono_ms = mono_ms
        self.raw = version == 0
        self.stage = _BEGUN[self.stage]
        return Handshaken(ErrorCode.NONE, offered)

    def token(self, data: bytes, mono_ms: int, wall_ms: int) -> Stepped | SlowHash:
        """One token of the exchange; a refusal ends the connection. After a SlowHash the same token comes again."""
        assert self._side is not None
        try:
            outcome = self._side.step(data)
            if isinstance(outcome, SlowHash):
                return outcome
            if not isinstance(outcome, Proved):
                return Stepped(ErrorCode.NONE, outcome)
            if self.principal is not None and outcome.principal != self.principal:
                raise PeerRefused(
                    f"{outcome.principal} cannot go on with the session of {self.principal}",
                    told="Cannot change principals during re-authentication",
                )
        except PeerRefused as fault:
            self.end()
            told = fault.told or (
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._name}"
            )
            return Stepped(ErrorCode.SASL_AUTHENTICATION_FAILED, message=told, log=str(fault))
        return self._proved(outcome, mono_ms, wall_ms)

    def _proved(self, outcome: Proved, mono_ms: int, wall_ms: int) -> Stepped:
        longest = self._mechanisms[self._name].reauth_ms
        lives = [longest] if longest > 0 else []
        if outcome.expires_ms is not None:
            left = outcome.expires_ms - wall_ms
            if left <= 0:
                self.end()
                return Stepped(ErrorCode.SASL_AUTHENTICATION_FAILED, message="The session has expired", log="expired")
            lives.append(left)
        self.principal, self.by_token = outcome.principal, outcome.by_token
        self.expires_mono_ms = mono_ms + min(lives) if lives else None
        self._side = None
        self.raw = False
        self.stage = LoginStage.PROVEN
        return Stepped(ErrorCode.NONE, outcome.answer, lifetime_ms=min(lives, default=0))

    def _may_renew(self, mono_ms: int) -> bool:
        began = self._began_mono_ms
        return self.expires_mono_ms is not None and (began is None or mono_ms - began >= _AGAIN_AFTER_MS)
