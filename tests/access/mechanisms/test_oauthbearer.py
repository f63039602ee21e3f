"""OAUTHBEARER, both sides, without a socket."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.access.mechanisms.base import PeerRefused, Proved, SlowHash
from ottla.access.mechanisms.oauthbearer import (
    MOST_TOKEN_BYTES,
    Bearer,
    Judge,
    NotTaken,
    OauthBearerClient,
    OauthBearerServer,
)


def knows(token: str) -> Bearer | NotTaken:
    return Bearer("alice", 9000) if token == "good" else NotTaken("it has expired")


def stepped(side: OauthBearerServer, data: bytes) -> bytes | Proved:
    outcome = side.step(data)
    if isinstance(outcome, SlowHash):
        outcome.work()
        outcome = side.step(data)
    assert not isinstance(outcome, SlowHash)
    return outcome


def shown(data: bytes, judge: Judge = knows) -> bytes | Proved:
    return stepped(OauthBearerServer(judge), data)


def test_a_good_token_is_proof_of_its_owner_until_it_expires() -> None:
    client = OauthBearerClient("good", {"tenant": "blue"})
    assert client.first() == b"n,,\x01auth=Bearer good\x01tenant=blue\x01\x01"
    assert shown(client.first()) == Proved("User:alice", b"", 9000)
    assert client.step(b"") is None


def test_a_token_is_looked_at_off_the_loop_and_once() -> None:
    looked: list[str] = []

    def judge(token: str) -> Bearer:
        looked.append(token)
        return Bearer("alice", 1)

    side = OauthBearerServer(judge)
    outcome = side.step(b"n,,\x01auth=Bearer x\x01\x01")
    assert isinstance(outcome, SlowHash)
    assert looked == []
    outcome.work()
    assert isinstance(side.step(b"n,,\x01auth=Bearer x\x01\x01"), Proved)
    assert looked == ["x"]


def test_a_bad_token_is_answered_without_the_reason_and_refused_after_the_clients_last_byte() -> None:
    client, server = OauthBearerClient("bad"), OauthBearerServer(knows)
    answer = stepped(server, client.first())
    assert isinstance(answer, bytes)
    assert json.loads(answer) == {"status": "invalid_token"}
    last = client.step(answer)
    assert last == b"\x01"
    with pytest.raises(PeerRefused, match="it has expired") as fault:
        server.step(last)
    assert fault.value.told == '{"status":"invalid_token"}'


def test_a_good_token_after_a_refused_one_does_not_help() -> None:
    server = OauthBearerServer(knows)
    stepped(server, b"n,,\x01auth=Bearer bad\x01\x01")
    with pytest.raises(PeerRefused):
        server.step(b"n,,\x01auth=Bearer good\x01\x01")


def test_nobody_is_another_than_the_token_says() -> None:
    assert isinstance(shown(b"n,a=alice,\x01auth=Bearer good\x01\x01"), Proved)
    with pytest.raises(PeerRefused, match="alice asks to be 'root,=") as fault:
        shown(b"n,a=root=2C=3D,\x01auth=Bearer good\x01\x01")
    assert fault.value.told is not None
    assert "authorization id" in fault.value.told


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01\x01\x01", b"y,,\x01auth=Bearer good\x01\x01",
        b"p=x,,\x01auth=Bearer good\x01\x01", b"n,,\x01auth=Bearer good\x01", b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01auth=Bearer a b\x01\x01", b"n,,\x01auth=Bearer good\x01\x01x",
        b"n,,\x01auth=Bearer good\x01auth=Bearer other\x01\x01", b"n,,\x01auth=Bearer good\x01x1=y\x01\x01",
        b"n,,\x01auth=Bearer good\x01x=\x01\x01", b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,a=,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * MOST_TOKEN_BYTES + b"\x01\x01",
    ],
)  # fmt: skip
def test_messages_of_another_form_are_refused_before_a_token_is_looked_at(data: bytes) -> None:
    def never(token: str) -> Bearer:
        raise AssertionError(token)

    with pytest.raises(PeerRefused):
        shown(data, never)


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_no_bytes_do_anything_else_than_prove_refuse_or_answer(first: bytes, second: bytes) -> None:
    for data in (first, b"n,," + first, b"n,,\x01auth=Bearer " + first + b"\x01\x01"):
        server = OauthBearerServer(knows)
        try:
            outcome = stepped(server, data)
            assert isinstance(outcome, bytes) or data.count(b"good")
            if isinstance(outcome, bytes):
                stepped(server, second)
                raise AssertionError("a refused token ends the exchange")
        except PeerRefused:
            pass
        client = OauthBearerClient("good")
        with contextlib.suppress(PeerRefused):
            assert client.step(first) in (None, b"\x01")


def test_a_client_sends_no_token_and_no_extension_that_the_mechanism_has_no_place_for() -> None:
    for token, extensions in (
        ("a\x01b", {}),
        ("", {}),
        ("a", {"auth": "x"}),
        ("a", {"b c": "x"}),
        ("a", {"b": "\n\0"}),
    ):
        with pytest.raises(ValueError, match="OAUTHBEARER"):
            OauthBearerClient(token, extensions)


def test_a_client_does_not_go_on_with_a_broker_that_talks_otherwise() -> None:
    with pytest.raises(PeerRefused, match="none of the mechanism"):
        OauthBearerClient("good").step(b"[" * 100_000)
    client = OauthBearerClient("good")
    assert client.step(b'{"status": "invalid_token"}') == b"\x01"
    with pytest.raises(PeerRefused, match="invalid_token"):
        client.step(b"{}")
