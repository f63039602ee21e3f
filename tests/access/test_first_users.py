"""The users of a cluster's first start: their file, and the decision to take them."""

from __future__ import annotations

import json

import pytest

from ottla.access.first_users import first_user, first_users_text, parse_first_users
from ottla.access.mechanisms.scram import ScramClient, ScramServer

ALICE = first_user("alice", "hunter2", "SCRAM-SHA-512", b"salt of alice")
BOB = first_user("bob", "b", "SCRAM-SHA-256", b"salt of bob")


def test_users_are_read_as_they_were_written_and_without_passwords() -> None:
    text = first_users_text([ALICE, BOB])
    assert parse_first_users(text) == [ALICE, BOB]
    assert "hunter2" not in text


def test_the_keys_check_a_login_by_the_password() -> None:
    client = ScramClient("SCRAM-SHA-512", "alice", "hunter2", "nonce")
    server = ScramServer("SCRAM-SHA-512", {"alice": ALICE.keys}.get, lambda: "more", b"secret")
    challenge = server.step(client.first())
    assert isinstance(challenge, bytes)
    answer = client.step(challenge)
    assert answer is not None
    proved = server.step(answer)
    assert not isinstance(proved, bytes)
    assert proved.principal == "User:alice"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"iterations": 1}, "iterations must be 4096 to 16384"),
        ({"mechanism": "PLAIN"}, "mechanism must be one of"),
        ({"salt": "!"}, "salt must be bytes in base64"),
        ({"stored_key": ""}, "stored_key must be bytes"),
        ({"user": ""}, "has no name"),
        ({"password": "x"}, "and no others"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, object], said: str) -> None:
    content = json.loads(first_users_text([ALICE]))
    content["users"][0] |= change
    with pytest.raises(ValueError, match=said):
        parse_first_users(json.dumps(content))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "it must be"),
        (first_users_text([ALICE, ALICE]), "named twice"),
    ],
)
def test_a_text_of_another_kind_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_first_users(text)
