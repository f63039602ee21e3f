"""GSSAPI, both sides, over contexts that stand for Kerberos'."""

from __future__ import annotations

import pytest

from ottla.access.mechanisms.base import PeerRefused, Proved, SlowHash
from ottla.access.mechanisms.gssapi import GssapiClient, GssapiServer
from ottla.tls.kerberos import KerberosFault


class Context:
    """Complete once it was told the other side's ticket; what it wraps is marked."""

    def __init__(self, tokens: list[bytes], *, fails: bool = False) -> None:
        self._tokens = tokens
        self._fails = fails
        self.initiator = "alice@REALM"
        self.complete = False

    def step(self, token: bytes) -> bytes:
        if self._fails or token == b"foreign":
            raise KerberosFault("the ticket is not for us")
        self.complete = len(self._tokens) <= 1
        return self._tokens.pop(0) if self._tokens else b""

    def wrap(self, data: bytes) -> bytes:
        return b"wrapped" + data

    def unwrap(self, data: bytes) -> bytes:
        if not data.startswith(b"wrapped"):
            raise KerberosFault("a message was altered")
        return data.removeprefix(b"wrapped")


def short(principal: str) -> str | None:
    return {"alice@REALM": "alice"}.get(principal)


def stepped(side: GssapiServer, data: bytes) -> bytes | Proved:
    work = side.step(data)
    assert isinstance(work, SlowHash), "all work is done off the loop"
    work.work()
    outcome = side.step(data)
    assert not isinstance(outcome, SlowHash)
    return outcome


def test_both_sides_of_an_exchange_end_with_the_name_of_the_tickets_owner() -> None:
    client, server = GssapiClient(Context([b"ticket", b""])), GssapiServer(lambda: Context([b"reply"]), short)
    data = client.first()
    outcome: bytes | Proved = b""
    while not isinstance(outcome, Proved):
        outcome = stepped(server, data)
        if isinstance(outcome, bytes):
            answer = client.step(outcome)
            assert answer is not None
            data = answer
    assert outcome == Proved("User:alice")
    assert client.step(outcome.answer) is None


def offered() -> GssapiServer:
    """A side that has offered its layers."""
    server = GssapiServer(lambda: Context([b"reply"]), short)
    assert stepped(server, b"ticket") == b"reply"
    assert stepped(server, b"") == b"wrapped\x01\0\0\0"
    return server


def test_the_name_that_a_client_asks_for_counts_for_nothing() -> None:
    assert stepped(offered(), b"wrapped\x01\0\0\0admin") == Proved("User:alice")


@pytest.mark.parametrize(
    "data", [b"", b"\x01\0\0\0", b"wrapped", b"wrapped\x01\0", b"wrapped\x04\0\xff\xff", b"wrapped\x02\0\0\0"]
)
def test_messages_that_are_altered_or_ask_for_a_layer_are_refused(data: bytes) -> None:
    with pytest.raises(PeerRefused):
        stepped(offered(), data)


def test_a_foreign_ticket_a_principal_without_a_name_and_bytes_too_many_are_refused() -> None:
    with pytest.raises(PeerRefused, match="not for us"):
        stepped(GssapiServer(lambda: Context([b"reply"]), short), b"foreign")
    server = GssapiServer(lambda: Context([b"reply"]), lambda principal: None)
    stepped(server, b"ticket")
    stepped(server, b"")
    with pytest.raises(PeerRefused, match="gives alice@REALM a name"):
        stepped(server, b"wrapped\x01\0\0\0")
    server = GssapiServer(lambda: Context([b"reply"]), short)
    stepped(server, b"ticket")
    with pytest.raises(PeerRefused, match="1 bytes where none are due"):
        stepped(server, b"x")


def test_a_client_does_not_trust_a_broker_that_proves_nothing_or_wants_a_layer() -> None:
    for answer in (b"\x01\0\0\0", b"wrapped\x06\0\xff\xff", b"wrapped\x01"):
        client = GssapiClient(Context([b"ticket"]))
        client.first()
        with pytest.raises(PeerRefused):
            client.step(answer)
    with pytest.raises(KerberosFault):
        GssapiClient(Context([], fails=True)).first()
