"""The fifteenth judge: a guest is served while its session lasts, and a session begins only with a good token.

A session lasts from the moment at which the proof reaches the broker, which lies between the sending of the proof and
the answer. What a client sends once a session is over by the later of the two must not be answered. A token is good
until no broker's clock could take it for expired, unless a command to end it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.kernel.errors import ErrorCode
from ottla.sim.checkers.history import (
    Anomaly,
    History,
    LoggedIn,
    LoginRefused,
    Served,
    SessionEnded,
    TokenEnded,
    TokenEnding,
    TokenGiven,
)


def check_sessions(history: History) -> Iterator[Anomaly]:
    """Answers after a session's end, sessions that end early or late, and logins with tokens that are good no more."""
    tokens: dict[str, TokenGiven] = {}
    ending: set[str] = set()
    ended: dict[str, int] = {}
    sessions: dict[str, LoggedIn] = {}
    for event in history.events:
        if isinstance(event, TokenGiven):
            tokens[event.token_id] = event
        elif isinstance(event, TokenEnding):
            ending.add(event.token_id)
        elif isinstance(event, TokenEnded):
            ended[event.token_id] = event.at_us
        elif isinstance(event, LoggedIn):
            sessions[event.session] = event
            yield from _of_a_login(event, tokens[event.token_id], ended.get(event.token_id))
        elif isinstance(event, LoginRefused):
            if event.token_id not in ending and event.latest_ms < tokens[event.token_id].expires_ms:
                what = f"{event.guest} was refused with {ErrorCode(event.error).name}, and its token is good"
                yield Anomaly("login-refused", what)
        elif isinstance(event, Served):
            late_us = event.sent_us - _over_by_us(sessions[event.session])
            if late_us >= 0:
                what = f"a request of session {event.session} was sent {late_us // 1000} ms after its end, and answered"
                yield Anomaly("served-after-session", what)
        elif isinstance(event, SessionEnded):
            early_us = _lasts_to_us(sessions[event.session]) - event.at_us
            if early_us > 0:
                what = f"the broker ended session {event.session} more than {early_us // 1000} ms before its time"
                yield Anomaly("session-cut-short", what)


def _of_a_login(event: LoggedIn, token: TokenGiven, ended_us: int | None) -> Iterator[Anomaly]:
    if ended_us is not None and ended_us <= event.asked_us:
        yield Anomaly("login-by-ended-token", f"session {event.session} began with a token that was ended before")
    left_ms = None if event.wall_ms is None else token.expires_ms - event.wall_ms
    if event.lifetime_ms <= 0 or (left_ms is not None and event.lifetime_ms > left_ms):
        what = f"session {event.session} may last {event.lifetime_ms} ms, and its token {left_ms} ms"
        yield Anomaly("session-outlives-token", what)


def _lasts_to_us(session: LoggedIn) -> int:
    """The earliest time at which a broker may end a session: it counts whole milliseconds."""
    return (session.proved_us // 1000 + session.lifetime_ms) * 1000


def _over_by_us(session: LoggedIn) -> int:
    """The time from which on no request of a session is served."""
    return session.at_us + session.lifetime_ms * 1000
