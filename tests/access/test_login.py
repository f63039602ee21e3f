"""The states of a connection until it has a principal, and after."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.access.login import API_VERSIONS, AUTHENTICATE, HANDSHAKE, MAY_BEGIN, OTHER, Login, LoginStage, Mechanism
from ottla.access.mechanisms.base import PeerRefused, Proved, SlowHash
from ottla.access.mechanisms.plain import PlainClient, PlainServer
from ottla.access.mechanisms.scram import SHA_256, ScramClient, ScramServer, TokenLogin, keys_of, salted_password
from ottla.kernel.errors import ErrorCode

ALICE, BOB = PlainClient("alice", "a").first(), PlainClient("bob", "b").first()
WRONG = PlainClient("alice", "wrong").first()


def login(reauth_ms: int = 0) -> Login:
    def begin() -> PlainServer:
        return PlainServer({"alice": "a", "bob": "b"})

    return Login({"PLAIN": Mechanism(begin, reauth_ms), "OTHER": Mechanism(begin, reauth_ms)})


def proven(reauth_ms: int = 0) -> Login:
    one = login(reauth_ms)
    assert one.handshake("PLAIN", 1, 0).code == ErrorCode.NONE
    assert one.token(ALICE, 0, 0).code == ErrorCode.NONE
    return one


def test_a_login_in_kafkas_order_gives_a_principal() -> None:
    one = login()
    assert one.may_begin(API_VERSIONS)
    assert not one.may_begin(OTHER)
    assert one.handshake("PLAIN", 1, 0).mechanisms == ("PLAIN", "OTHER")
    assert one.principal is None
    assert one.token(ALICE, 0, 0).lifetime_ms == 0
    assert (one.principal, one.stage) == ("User:alice", LoginStage.PROVEN)
    assert one.may_begin(OTHER)
    assert one.may_begin(API_VERSIONS)


def test_api_versions_may_come_once_before_the_proof_unless_it_was_refused() -> None:
    one = login()
    assert one.may_begin(API_VERSIONS)
    assert not one.may_begin(API_VERSIONS)
    one.unsupported_versions()
    assert one.may_begin(API_VERSIONS)


def test_every_state_lets_only_its_requests_begin() -> None:
    for stage, request in product(LoginStage, (API_VERSIONS, HANDSHAKE, AUTHENTICATE, OTHER)):
        one = login()
        one.stage = stage
        assert one.may_begin(request) == (request in MAY_BEGIN[stage])
    assert [stage for stage in LoginStage if OTHER in MAY_BEGIN[stage]] == [LoginStage.PROVEN]


def test_an_unknown_mechanism_ends_the_connection_and_names_those_there_are() -> None:
    one = login()
    answer = one.handshake("GSSAPI", 1, 0)
    assert (answer.code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN", "OTHER"))
    assert one.stage is LoginStage.ENDED


def test_a_wrong_password_ends_the_connection_without_a_principal() -> None:
    one = login()
    one.handshake("PLAIN", 1, 0)
    answer = one.token(WRONG, 0, 0)
    assert (answer.code, answer.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, "Invalid username or password")
    assert (one.stage, one.principal) == (LoginStage.ENDED, None)


def test_a_session_expires_and_is_renewed_by_the_same_principal() -> None:
    one = proven(reauth_ms=5000)
    one.expire(4999)
    assert one.may_begin(OTHER)
    one.expire(5000)
    assert not one.may_begin(OTHER)
    assert one.may_begin(HANDSHAKE)
    assert one.handshake("PLAIN", 1, 5000).code == ErrorCode.NONE
    assert not one.may_begin(OTHER)
    assert one.token(ALICE, 5100, 0).lifetime_ms == 5000
    one.expire(10_099)
    assert one.may_begin(OTHER)


def test_a_session_is_renewed_before_its_end_but_not_twice_within_a_second() -> None:
    one = proven(reauth_ms=5000)
    assert one.handshake("PLAIN", 1, 999).code == ErrorCode.ILLEGAL_SASL_STATE
    assert one.may_begin(OTHER), "the connection lives on"
    assert one.handshake("PLAIN", 1, 1000).code == ErrorCode.NONE


def test_a_session_without_an_end_is_not_renewed() -> None:
    one = proven()
    assert one.handshake("PLAIN", 1, 60_000).code == ErrorCode.ILLEGAL_SASL_STATE
    assert one.principal == "User:alice"
    assert one.may_begin(OTHER)


def test_nobody_else_goes_on_with_a_session() -> None:
    one = proven(reauth_ms=5000)
    one.handshake("PLAIN", 1, 2000)
    assert one.token(BOB, 2000, 0).code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (one.stage, one.principal) == (LoginStage.ENDED, "User:alice")
    one = proven(reauth_ms=5000)
    assert one.handshake("OTHER", 1, 2000).code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert one.stage is LoginStage.ENDED


@pytest.mark.parametrize(
    ("reauth_ms", "expires_ms", "lifetime_ms"), [(0, 9000, 8000), (5000, 9000, 5000), (50_000, 9000, 8000)]
)
def test_a_session_ends_with_what_was_shown_or_with_the_longest_session(reauth_ms, expires_ms, lifetime_ms) -> None:
    class Ticket:
        def step(self, data: bytes) -> Proved:
            return Proved("User:x", expires_ms=expires_ms)

    one = Login({"TICKET": Mechanism(Ticket, reauth_ms)})
    one.handshake("TICKET", 1, 0)
    assert one.token(b"", 0, 1000).lifetime_ms == lifetime_ms
    late = Login({"TICKET": Mechanism(Ticket, reauth_ms)})
    late.handshake("TICKET", 1, 0)
    assert late.token(b"", 0, 9000).code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert late.principal is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["versions", "handshake", "other", "alice", "bob", "wrong"]), st.integers(0, 3000))
    )
)
def test_no_order_of_requests_lets_anything_else_begin_without_a_proof(events) -> None:
    one, now, shown = login(reauth_ms=4000), 0, []
    for event, later in events:
        now += later
        one.expire(now)
        if event == "versions":
            one.may_begin(API_VERSIONS)
        elif event == "handshake" and one.may_begin(HANDSHAKE):
            one.handshake("PLAIN", 1, now)
        elif event == "other" and one.may_begin(OTHER):
            assert one.principal in shown
            assert shown[0] == one.principal
            assert one.expires_mono_ms is not None
            assert now < one.expires_mono_ms
        elif event in ("alice", "bob", "wrong") and one.may_begin(AUTHENTICATE):
            token = {"alice": ALICE, "bob": BOB, "wrong": WRONG}[event]
            if one.token(token, now, 0).code == ErrorCode.NONE:
                shown.append(f"User:{event}")


def test_a_side_that_raises_a_refusal_without_words_tells_nothing() -> None:
    class Closed:
        def step(self, data: bytes) -> bytes:
            raise PeerRefused("the secret reason")

    one = Login({"X": Mechanism(Closed)})
    one.handshake("X", 1, 0)
    answer = one.token(b"", 0, 0)
    assert "secret" not in (answer.message or "")
    assert answer.log == "the secret reason"


def test_a_delegation_token_gives_its_owner_until_it_expires_once_its_keys_are_there() -> None:
    kept: dict[str, TokenLogin] = {}

    def find(mechanism: str, token_id: str, salt: bytes) -> TokenLogin | SlowHash | None:
        def work() -> None:
            keys = keys_of(mechanism, salted_password(mechanism, "hmac", salt, 4096), salt, 4096)
            kept[token_id] = TokenLogin(keys, "User:alice", expires_ms=7000)

        return kept.get(token_id) or (SlowHash(work) if token_id == "id" else None)

    def begun(user: str, *, token: bool = True) -> tuple[Login, ScramClient]:
        server = Mechanism(lambda: ScramServer(SHA_256, {}.get, lambda: "nonce", b"secret", find), 60_000)
        one = Login({SHA_256: server})
        one.handshake(SHA_256, 1, 0)
        return one, ScramClient(SHA_256, user, "hmac", "client", token=token)

    one, client = begun("id")
    slow = one.token(client.first(), 0, 5000)
    assert isinstance(slow, SlowHash)
    assert one.stage is LoginStage.PROVING
    slow.work()
    challenge = one.token(client.first(), 0, 5000)
    assert not isinstance(challenge, SlowHash)
    final = client.step(challenge.answer)
    assert final is not None
    done = one.token(final, 0, 5000)
    assert not isinstance(done, SlowHash)
    assert (done.lifetime_ms, one.principal, one.by_token) == (2000, "User:alice", True)
    assert client.step(done.answer) is None
    one.expire(1999)
    assert one.may_begin(OTHER)
    one.expire(2000)
    assert not one.may_begin(OTHER)

    for user, token in (("id", False), ("other", True)):
        one, client = begun(user, token=token)
        challenge = one.token(client.first(), 0, 5000)
        assert not isinstance(challenge, SlowHash)
        final = client.step(challenge.answer)
        assert final is not None
        refused = one.token(final, 0, 5000)
        assert not isinstance(refused, SlowHash)
        assert refused.code == ErrorCode.SASL_AUTHENTICATION_FAILED
