"""Delegation tokens in the metadata: decided, applied, in a snapshot, and not before every broker knows them."""

from __future__ import annotations

import pytest

from ottla.cluster import tokens
from ottla.cluster.token_commands import ChangeToken, CreateToken
from ottla.kernel.credentials import DelegationToken
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import METADATA_VERSION, Metadata

ALICE, BOB, CAROL, EVE = (f"User:{name}" for name in ("alice", "bob", "carol", "eve"))
TOKEN = DelegationToken("t", ALICE, CAROL, (BOB,), issued_ms=0, expires_ms=100, max_ms=1000)


def state_with(*some: DelegationToken, level: int = 9) -> Metadata:
    state = Metadata()
    state.features[METADATA_VERSION] = level
    for token in some:
        apply(state, tokens.create(CreateToken(token), state))
    return state


def apply(state: Metadata, bodies: list | ApiError) -> None:
    assert not isinstance(bodies, ApiError)
    for body in bodies:
        state.apply(state.version + 1, body)


def change(state: Metadata, by: str, now_ms: int, until_ms: int | None, *, renews: bool = True) -> ErrorCode:
    bodies = tokens.change(ChangeToken("t", by, now_ms, until_ms, renews=renews), state)
    if isinstance(bodies, ApiError):
        return bodies.code
    apply(state, bodies)
    return ErrorCode.NONE


@pytest.mark.parametrize("by", [ALICE, BOB, CAROL])
def test_owner_requester_and_renewer_renew_up_to_the_last_time(by: str):
    state = state_with(TOKEN)
    assert change(state, by, 50, 400) == ErrorCode.NONE
    assert state.tokens["t"] == TOKEN._replace(expires_ms=400)
    assert change(state, by, 300, 5000) == ErrorCode.NONE
    assert state.tokens["t"].expires_ms == 1000


def test_others_and_late_ones_are_refused_in_kafkas_order():
    state = state_with(TOKEN)
    assert change(state, EVE, 100, 400) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert change(state, EVE, 101, 400) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert change(state, EVE, 101, 400, renews=False) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert change(state, BOB, 101, 400, renews=False) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert state.tokens["t"] == TOKEN
    assert change(state_with(), ALICE, 0, 1) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_ends_at_once_or_sooner():
    state = state_with(TOKEN)
    assert change(state, BOB, 10, 20, renews=False) == ErrorCode.NONE
    assert state.tokens["t"].expires_ms == 20
    assert change(state, BOB, 999, None, renews=False) == ErrorCode.NONE
    assert state.tokens == {}


def test_a_new_token_takes_expired_ones_away_and_no_others():
    good = TOKEN._replace(token_id="good", expires_ms=500)
    state = state_with(TOKEN, good, TOKEN._replace(token_id="new", issued_ms=101, expires_ms=200))
    assert sorted(state.tokens) == ["good", "new"]


def test_tokens_are_in_snapshots_and_wait_for_the_last_broker():
    state = state_with(TOKEN, TOKEN._replace(token_id="u", renewers=()))
    assert load_snapshot(take_snapshot(state)).tokens == state.tokens
    refused = tokens.create(CreateToken(TOKEN), state_with(level=8))
    assert isinstance(refused, ApiError)
    assert refused.code == ErrorCode.UNSUPPORTED_VERSION
