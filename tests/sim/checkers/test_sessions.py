"""The judge of sessions finds answers after a session's end, sessions of the wrong length, and logins of bad tokens."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.sim.checkers.history import (
    Event,
    History,
    LoggedIn,
    LoginRefused,
    Served,
    SessionEnded,
    TokenEnded,
    TokenEnding,
    TokenGiven,
)
from ottla.sim.checkers.sessions import check_sessions

GUEST, TOKEN, SESSION = "guest1", "token", "guest1/1"
EXPIRES_MS = 9000
"""By clocks that showed 0 at the start of the world."""
GIVEN = TokenGiven(0, GUEST, TOKEN, EXPIRES_MS)
ENDING, ENDED = TokenEnding(500_000, TOKEN), TokenEnded(600_000, TOKEN)


def logged_in(
    *, lifetime_ms: int = 2000, wall_ms: int | None = 1005, asked_us: int = 1_000_000, session: str = SESSION
) -> LoggedIn:
    """A login whose proof is sent 5 ms after its beginning, and answered after 10."""
    return LoggedIn(asked_us + 10_000, session, TOKEN, asked_us, asked_us + 5000, wall_ms, lifetime_ms)


def served(sent_us: int, session: str = SESSION) -> Served:
    return Served(sent_us + 500_000, session, sent_us)


def refused(latest_ms: int) -> LoginRefused:
    return LoginRefused(1_000_000, GUEST, TOKEN, latest_ms, int(ErrorCode.SASL_AUTHENTICATION_FAILED))


def kinds(*events: Event) -> set[str]:
    history = History()
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check_sessions(history)}


@pytest.mark.parametrize(
    "events",
    [
        (GIVEN, logged_in(), served(3_009_999)),
        (GIVEN, logged_in(), logged_in(asked_us=2_000_000, session="guest1/2"), served(3_500_000, "guest1/2")),
        (GIVEN, logged_in(), SessionEnded(3_005_000, SESSION)),
        (GIVEN, logged_in(lifetime_ms=EXPIRES_MS - 1005)),
        (GIVEN, logged_in(lifetime_ms=EXPIRES_MS, wall_ms=None)),
        (GIVEN, ENDING, logged_in()),
        (GIVEN, ENDING, ENDED, logged_in(asked_us=599_999)),
        (GIVEN, refused(EXPIRES_MS)),
        (GIVEN, ENDING, refused(1000)),
        (GIVEN, ENDING, ENDED, refused(1000)),
    ],
    ids=[
        "sent in time", "in the next session", "ended in time", "as long as the token", "clock set meanwhile",
        "not ended yet", "asked before it ended", "expired by some clock", "refused as it ends", "refused after",
    ],
)  # fmt: skip
def test_what_may_be_is_passed_over(events: tuple[Event, ...]):
    assert kinds(*events) == set()


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ((GIVEN, logged_in(), served(3_010_000)), "served-after-session"),
        ((GIVEN, logged_in(), SessionEnded(3_004_999, SESSION)), "session-cut-short"),
        ((GIVEN, logged_in(lifetime_ms=EXPIRES_MS - 1004)), "session-outlives-token"),
        ((GIVEN, logged_in(lifetime_ms=0)), "session-outlives-token"),
        ((GIVEN, logged_in(lifetime_ms=-1, wall_ms=None)), "session-outlives-token"),
        ((GIVEN, ENDING, ENDED, logged_in(asked_us=600_000)), "login-by-ended-token"),
        ((GIVEN, refused(EXPIRES_MS - 1)), "login-refused"),
    ],
    ids=["late request", "early end", "too long", "without end", "ended before it began", "ended token", "good token"],
)
def test_what_must_not_be_is_found(events: tuple[Event, ...], kind: str):
    assert kinds(*events) == {kind}
