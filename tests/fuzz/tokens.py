"""Tokens of each mechanism that nobody should take, to both sides."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

from ottla.access.mechanisms.base import PeerRefused, Proved, ServerSide, SlowHash
from ottla.access.mechanisms.oauthbearer import NAME as OAUTHBEARER
from ottla.access.mechanisms.oauthbearer import Bearer, NotTaken, OauthBearerServer
from ottla.access.mechanisms.plain import PlainClient, PlainServer
from ottla.access.mechanisms.scram import SHA_256, SHA_512, ScramClient, ScramServer, keys_of, salted_password

_USER, _PASSWORD = "alice", "pencil"
_SALT = b"salt of alice"
_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmVk"
_FIRST = {
    "PLAIN": f"\0{_USER}\0{_PASSWORD}",
    SHA_256: f"n,,n={_USER},r=cli",
    SHA_512: f"n,,n={_USER},r=cli",
    OAUTHBEARER: f"n,a={_USER},\x01auth=Bearer {_TOKEN}\x01host=broker\x01\x01",
}
"""The first token of each mechanism."""
_KEYS = {name: keys_of(name, salted_password(name, _PASSWORD, _SALT, 4096), _SALT, 4096) for name in (SHA_256, SHA_512)}
_ODD = (
    b"", b"\0", b"\0\0", b"\0\0\0", b"n,,", b"y,,n=a,r=b", b"p=tls-unique,,n=a,r=b", b"n,,n==,r=b", b"n,,n=a=2C=3D,r=b",
    b"n,a=b,n=a,r=b", b"n,,m=x,n=a,r=b", b"n,,n=a,r=b,m=x", b"n,,n=a,r=b,tokenauth=true", b"c=biws,r=,p=",
    b"e=other-error", b"v=", b"r=x,s=,i=4096", b"r=x,s=QQ==,i=0", b"r=x,s=QQ==,i=-1", b"r=x,s=QQ==,i=99999999999",
    b"n,,\x01auth=Bearer \x01\x01", b"n,a=x,\x01auth=Bearer a.b.c\x01\x01", b"\x01", b"\xff\xfe", b"a" * 9000,
)  # fmt: skip


def broken(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some of them changed, lost, doubled or put in."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(5)
        if kind == 0 and out:
            out[min(at, len(out) - 1)] = chance.randrange(256)
        elif kind == 1:
            del out[at : at + chance.randint(1, 8)]
        elif kind == 2:
            out[at:at] = out[at : at + chance.randint(1, 20)]
        elif kind == 3:
            out[at:at] = chance.choice([b"\0", b",", b"=", b"=2C", b"\r\n", b"\x1b[31m", b"\xc3", b"\xf0\x9f\x98\x80"])
        else:
            out[at:at] = chance.choice(_ODD)
    return bytes(out)


def hostile_token(chance: random.Random, user: str, password: str) -> bytes:
    """A token for whatever mechanism is asked."""
    if chance.random() < 0.3:
        return chance.choice(_ODD)
    whole = chance.choice([f"\0{user}\0{password}", f"n,,n={user},r=abc", f"\0{user}\0x", f"{user}\0root\0{password}"])
    return broken(whole.encode(), chance)


def _server(mechanism: str) -> ServerSide:
    if mechanism == "PLAIN":
        return PlainServer({_USER: _PASSWORD})
    if mechanism == OAUTHBEARER:
        return OauthBearerServer(lambda token: Bearer(_USER, 1) if token == _TOKEN else NotTaken("another token"))
    return ScramServer(mechanism, {_USER: _KEYS[mechanism]}.get, lambda: "srv", b"secret")


def _client(mechanism: str, password: str) -> PlainClient | ScramClient:
    if mechanism == "PLAIN":
        return PlainClient(_USER, password)
    return ScramClient(mechanism, _USER, password, "cli")


def to_server(_doorway: Any, chance: random.Random) -> str:
    """Tokens to the broker's side, each of them broken: nobody is let in, and nothing but a refusal is raised."""
    mechanism = chance.choice(list(_FIRST))
    side = _server(mechanism)
    first = _FIRST[mechanism]
    last = b"c=biws,r=clisrv,p=" + base64.b64encode(chance.randbytes(chance.choice([0, 20, 32, 64])))
    try:
        for whole in (first.encode(), last):
            sent = broken(whole, chance) if chance.random() < 0.8 else whole
            outcome = side.step(sent)
            if isinstance(outcome, SlowHash):
                outcome.work()
                outcome = side.step(sent)
            if isinstance(outcome, Proved):
                assert outcome.principal == f"User:{_USER}" and _shown(mechanism, sent), sent
                return f"{mechanism} server: in"
    except PeerRefused:
        return f"{mechanism} server: refused"
    return f"{mechanism} server: goes on"


def _shown(mechanism: str, sent: bytes) -> bool:
    """True if the secret is in the token; of SCRAM nobody here knows a proof."""
    if mechanism == OAUTHBEARER:
        return _TOKEN.encode() in sent
    return mechanism == "PLAIN" and sent.split(b"\0")[1:] == [_USER.encode(), _PASSWORD.encode()]


def to_client(_doorway: Any, chance: random.Random) -> str:
    """Answers to the client's side, broken: it believes no broker that has not proved itself."""
    mechanism = chance.choice([SHA_256, SHA_512])
    side = _client(mechanism, _PASSWORD)
    salt = base64.b64encode(_SALT).decode()
    challenge = f"r=clisrv,s={salt},i={'4096' if chance.random() < 0.1 else '4095'}".encode()
    sent = broken(challenge, chance)
    if b"i=4096" in sent and chance.random() < 0.9:
        sent = sent.replace(b"i=4096", b"i=12")
    try:
        side.first()
        side.step(sent)
        done = side.step(broken(b"v=" + base64.b64encode(chance.randbytes(32)), chance))
    except PeerRefused:
        return "client: refused"
    raise AssertionError(f"the client believes a broker that proved nothing: {sent!r}, {done!r}")


def exchanges_of() -> list[Callable[[Any, random.Random], str]]:
    return [to_server] * 5 + [to_client] * 2
