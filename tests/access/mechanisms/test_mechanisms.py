"""The mechanisms by the RFCs' own examples, by both sides against one another, and by what attackers send."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.access.mechanisms.base import PeerRefused, Proved
from ottla.access.mechanisms.plain import PlainClient, PlainServer
from ottla.access.mechanisms.scram import SHA_256, SHA_512, ScramClient, ScramServer, keys_of, salted_password

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def keys(mechanism: str, password: str, salt: bytes = SALT, iterations: int = 4096):
    return keys_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


KNOWN = {mechanism: {"user": keys(mechanism, "pencil")} for mechanism in (SHA_256, SHA_512)}


def server(mechanism: str = SHA_256, nonce: str = SERVER_NONCE, secret: bytes = b"secret") -> ScramServer:
    return ScramServer(mechanism, KNOWN[mechanism].get, lambda: nonce, secret)


def test_the_exchange_of_rfc_7677_is_spoken_byte_for_byte_by_both_sides() -> None:
    broker = server()
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == CLIENT_FIRST
    assert broker.step(CLIENT_FIRST) == SERVER_FIRST
    assert client.step(SERVER_FIRST) == CLIENT_FINAL
    assert broker.step(CLIENT_FINAL) == Proved("User:user", SERVER_FINAL)
    assert client.step(SERVER_FINAL) is None


@given(
    st.sampled_from([SHA_256, SHA_512]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_any_user_with_any_password_logs_in_and_with_another_password_does_not(mechanism, user, password) -> None:
    kept = {user: keys(mechanism, password)}
    for given_password in (password, password + "x"):
        broker = ScramServer(mechanism, kept.get, lambda: "abc", b"secret")
        client = ScramClient(mechanism, user, given_password, "client")
        challenge = broker.step(client.first())
        assert isinstance(challenge, bytes)
        final = client.step(challenge)
        if given_password == password:
            proved = broker.step(final)
            assert isinstance(proved, Proved)
            assert proved.principal == f"User:{user}"
            assert client.step(proved.answer) is None
        else:
            with pytest.raises(PeerRefused):
                broker.step(final)


def test_librdkafkas_older_nonce_with_its_own_part_twice_is_taken() -> None:
    broker = server(nonce="srv")
    challenge = broker.step(b"n,,n=user,r=cli")
    assert isinstance(challenge, bytes)
    odd = challenge.replace(b"r=clisrv", b"r=cliclisrv")
    client = ScramClient(SHA_256, "user", "pencil", "cli")
    # the proof is over the broker's own first message and the odd nonce
    import hashlib
    import hmac

    salted = salted_password(SHA_256, "pencil", SALT, 4096)
    said = b"n=user,r=cli," + challenge + b",c=biws,r=cliclisrv"
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), said, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
    proved = broker.step(b"c=biws,r=cliclisrv,p=" + proof)
    assert isinstance(proved, Proved)
    assert client.step(odd) is not None


@pytest.mark.parametrize("nonce", ["clisr", "srv", "clisrvx", "cliclicliSrv", "cliclisrvx"])
def test_any_other_nonce_is_refused(nonce: str) -> None:
    broker = server(nonce="srv")
    broker.step(b"n,,n=user,r=cli")
    with pytest.raises(PeerRefused, match="another exchange"):
        broker.step(f"c=biws,r={nonce},p=AAAA".encode())


def test_an_unknown_user_is_told_apart_by_nothing_before_the_last_step() -> None:
    first, second = server(), server()
    answers = [broker.step(b"n,,n=nobody,r=cli") for broker in (first, second)]
    assert answers[0] == answers[1], "the salt is the same at each try"
    other = server().step(b"n,,n=somebody,r=cli")
    assert other != answers[0]
    kept = ScramServer(SHA_256, {"nobody": keys(SHA_256, "x", bytes(20))}.get, lambda: SERVER_NONCE, b"")
    assert len(answers[0]) == len(kept.step(b"n,,n=nobody,r=cli"))
    final = ScramClient(SHA_256, "nobody", "guess", "cli")
    final.first()
    with pytest.raises(PeerRefused) as refused:
        first.step(final.step(answers[0]))
    wrong = server()
    client = ScramClient(SHA_256, "user", "guess", "cli")
    with pytest.raises(PeerRefused) as known:
        wrong.step(client.step(wrong.step(client.first())))
    assert refused.value.told == known.value.told


def test_keys_of_zeros_are_no_way_in_for_a_user_who_is_not_there() -> None:
    """The keys of nobody are public: a proof that fits them must still be refused."""
    import hashlib
    import hmac

    broker = server(nonce="srv")
    challenge = broker.step(b"n,,n=nobody,r=cli")
    assert isinstance(challenge, bytes)
    said = b"n=nobody,r=cli," + challenge + b",c=biws,r=clisrv"
    signature = hmac.digest(bytes(32), said, "sha256")
    with pytest.raises(PeerRefused):
        broker.step(b"c=biws,r=clisrv,p=" + base64.b64encode(signature))
    assert hashlib.sha256(bytes(32)).digest() != bytes(32)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"y,,n=user,r=cli",
        b"p=tls-unique,,n=user,r=cli",
        b"n,,n=user",
        b"n,,n=us=er,r=cli",
        b"n,,n=,r=cli",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=us\0er,r=cli",
        b"n,a=root,n=user,r=cli",
        b"n,,m=x,n=user,r=cli",
        b"n,,n=user,r=cli,m=x",
        b"n,,n=user,r=" + b"a" * 10000,
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(PeerRefused):
        server().step(first)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws",
        b"c=eSws,r=clisrv,p=AAAA",
        b"c=biws,r=clisrv,p=",
        b"c=biws,r=clisrv,p=!!!!",
        b"c=biws,r=clisrv,p=AAA",
        b"c=biws,r=clisrv,p=" + base64.b64encode(bytes(31)),
        b"c=biws,r=clisrv,p=" + base64.b64encode(bytes(33)),
    ],
)
def test_a_last_message_that_is_none_is_refused(final: bytes) -> None:
    broker = server(nonce="srv")
    broker.step(b"n,,n=user,r=cli")
    with pytest.raises(PeerRefused):
        broker.step(final)


def test_a_last_message_of_one_login_is_of_no_use_in_another() -> None:
    first, second = server(nonce="one"), server(nonce="two")
    client = ScramClient(SHA_256, "user", "pencil", "cli")
    final = client.step(first.step(client.first()))
    second.step(client.first())
    with pytest.raises(PeerRefused):
        second.step(final)


@pytest.mark.parametrize("iterations", [0, 1, 4095, 10**9, 10**10])
def test_a_client_does_neither_too_little_work_nor_endless_work_for_a_broker(iterations: int) -> None:
    client = ScramClient(SHA_256, "user", "pencil", "cli")
    with pytest.raises(PeerRefused):
        client.step(f"r=clisrv,s=AAAA,i={iterations}".encode())


@pytest.mark.parametrize("answer", [b"v=AAAA", b"", b"e=other-error", SERVER_FINAL[:-2] + b"A="])
def test_a_client_refuses_a_broker_that_does_not_know_the_keys(answer: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    client.step(SERVER_FIRST)
    with pytest.raises(PeerRefused):
        client.step(answer)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_refusal(first: bytes, second: bytes) -> None:
    for broker in (server(nonce="srv"), PlainServer({"user": "pencil"})):
        try:
            broker.step(first)
        except PeerRefused:
            continue
    broker = server(nonce="srv")
    broker.step(b"n,,n=user,r=cli")
    with pytest.raises(PeerRefused):
        broker.step(second)


def test_plain_takes_the_right_password_and_tells_nothing_of_users() -> None:
    broker = PlainServer({"alice": "secret", "bob": ""})
    assert broker.step(PlainClient("alice", "secret").first()) == Proved("User:alice")
    assert broker.step(b"alice\0alice\0secret") == Proved("User:alice")
    told = set()
    for wrong in (b"\0alice\0wrong", b"\0nobody\0secret", b"\0bob\0x"):
        with pytest.raises(PeerRefused) as refused:
            broker.step(wrong)
        told.add(refused.value.told)
    assert told == {"Invalid username or password"}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0\0secret",
        b"\0alice\0",
        b"root\0alice\0secret",
        b"\0alice\0secret\0",
        b"\xff\0a\0b",
    ],
)
def test_plain_refuses_what_is_no_user_and_password(message: bytes) -> None:
    with pytest.raises(PeerRefused):
        PlainServer({"alice": "secret"}).step(message)


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("x", ""), ("a\0b", "x"), ("a", "x\0")])
def test_a_client_refuses_to_send_what_plain_has_no_place_for(user: str, password: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        PlainClient(user, password)
