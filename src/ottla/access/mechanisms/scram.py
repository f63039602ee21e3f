"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677) as Kafka speaks them: no channel binding, no SASLprep.

The password is never sent. A broker keeps a salt and two keys of it (`ScramKeys`), by which it can check a login but
not log in elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from ottla.access.mechanisms.base import PeerRefused, Proved, SlowHash
from ottla.kernel.credentials import ScramKeys

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HASHES = {SHA_256: "sha256", SHA_512: "sha512"}
"""The hash of each mechanism."""
NUMBERS = {1: SHA_256, 2: SHA_512}
"""The mechanisms by their numbers in AlterUserScramCredentials (KIP-554)."""
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
"""The bounds that Kafka sets to a credential."""
_MOST_CLIENT_ITERATIONS = 1_000_000
"""The most iterations that a client works for: a second, and no more, for a broker that it does not know yet."""
_MOST_BYTES = 8192
_PRINTABLE = r"[!-+\--~]+"
_BASE64 = r"[A-Za-z0-9+/]+=*"
_MORE = r"(?:,[a-zA-Z]+=[^,\0]+)*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>[^,]+))?,(?P<bare>n=(?P<user>[^,\0]+),r=(?P<nonce>{_PRINTABLE})(?P<more>{_MORE}))"
)
_FINAL = re.compile(rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_MORE}),p=(?P<proof>{_BASE64})")
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,9}}){_MORE}"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^,\0]+)|v=(?P<verifier>{_BASE64})){_MORE}")


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802: what AlterUserScramCredentials carries. Takes milliseconds: not for an event loop."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def keys_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """The keys that follow from a salted password."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramKeys(salt, iterations, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name))


class TokenLogin(NamedTuple):
    """A delegation token that a client shows, as the broker knows it."""

    keys: ScramKeys
    owner: str
    """The principal of those who show it."""
    expires_ms: int


FindToken = Callable[[str, str, bytes], TokenLogin | SlowHash | None]
"""(mechanism, token id, salt) to the token; SlowHash where its keys have to be made first; None: there is none."""


class ScramServer:
    """The broker's side of one login.

    `keys` looks a user up, `tokens` a delegation token (KIP-48), `nonce` gives a printable one without commas. `secret`
    makes salts for tokens, and for users that are not there: they fail at the last step, as wrong passwords do.
    """

    def __init__(
        self,
        mechanism: str,
        keys: Callable[[str], ScramKeys | None],
        nonce: Callable[[], str],
        secret: bytes,
        tokens: FindToken | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = keys
        self._find_token = tokens
        self._token: TokenLogin | None = None
        self._nonce = nonce
        self._secret = secret
        self._user = ""
        self._keys: ScramKeys | None = None
        self._known = False
        self._client_nonce = self._whole_nonce = ""
        self._binding = b""
        self._said = ""

    def step(self, data: bytes) -> bytes | Proved | SlowHash:
        text = _text(data)
        return self._first(text) if self._keys is None else self._final(text, self._keys)

    def _first(self, text: str) -> bytes | SlowHash:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise self._malformed("first")
        user = _unescaped(found["user"])
        if found["authzid"] is not None and _unescaped(found["authzid"]) != user:
            told = "Authentication failed: Client requested an authorization id that is different from username"
            raise PeerRefused(told, told=told)
        extensions = dict(pair.split("=", 1) for pair in found["more"].split(",")[1:])
        if "m" in extensions:
            raise PeerRefused(
                "SCRAM: an extension that must be known is not", told="Mandatory extensions are not known"
            )
        if extensions.get("tokenauth", "false").lower() == "true":
            token = self._find_token(self._mechanism, user, self._salt(user)) if self._find_token is not None else None
            if isinstance(token, SlowHash):
                return token
            self._token, kept = token, None if token is None else token.keys
        else:
            kept = self._find(user)
        self._known = kept is not None
        self._user = user
        self._keys = kept or self._keys_of_nobody(user)
        self._client_nonce = found["nonce"]
        self._whole_nonce = self._client_nonce + self._nonce()
        self._binding = text[: found.start("bare")].encode()
        salt = base64.b64encode(self._keys.salt).decode()
        answer = f"r={self._whole_nonce},s={salt},i={self._keys.iterations}"
        self._said = f"{found['bare']},{answer}"
        return answer.encode()

    def _final(self, text: str, keys: ScramKeys) -> Proved:
        found = _FINAL.fullmatch(text)
        if found is None:
            raise self._malformed("last")
        # librdkafka before 2.6.1 puts its own part in front of the nonce once more; the proof covers either form.
        if found["nonce"] not in (self._whole_nonce, self._client_nonce + self._whole_nonce):
            raise PeerRefused(
                "SCRAM: the nonce of another exchange", told="Invalid client nonce in the final client message."
            )
        if _decoded(found["binding"]) != self._binding:
            raise PeerRefused("SCRAM: another channel binding than at first", told="Invalid channel binding.")
        auth_message = f"{self._said},{found['unproved']}".encode()
        proof = _decoded(found["proof"])
        signature = hmac.digest(keys.stored_key, auth_message, self._hash)
        good = len(proof) == len(signature)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        good &= hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), keys.stored_key)
        if not good or not self._known:
            raise PeerRefused(f"{self._mechanism}: no user {self._user!r} with that password")
        verifier = base64.b64encode(hmac.digest(keys.server_key, auth_message, self._hash))
        answer = b"v=" + verifier
        if self._token is not None:
            return Proved(self._token.owner, answer, expires_ms=self._token.expires_ms, by_token=True)
        return Proved(f"User:{self._user}", answer)

    def _keys_of_nobody(self, user: str) -> ScramKeys:
        """Keys to which nobody has the password."""
        size = hashlib.new(self._hash).digest_size
        return ScramKeys(self._salt(user), LEAST_ITERATIONS, bytes(size), bytes(size))

    def _salt(self, user: str) -> bytes:
        """A salt that is the same at each login."""
        return hmac.digest(self._secret, self._mechanism.encode() + b"\0" + user.encode(), "sha256")[:20]

    def _malformed(self, which: str) -> PeerRefused:
        return PeerRefused(
            f"SCRAM: the {which} message is malformed", told=f"Invalid SCRAM {which} client message format"
        )


class ScramClient:
    """The client's side of one login. It proves the password, and lets the broker prove that it keeps its keys."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str, *, token: bool = False) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_escaped(user)},r={nonce}{',tokenauth=true' if token else ''}"
        self._verifier: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def step(self, data: bytes) -> bytes | None:
        text = _text(data)
        if self._verifier is None:
            return self._final(text)
        found = _SERVER_FINAL.fullmatch(text)
        if found is None or found["error"] is not None:
            raise PeerRefused(f"SCRAM: the broker ended the login: {text[:200]!r}")
        if not hmac.compare_digest(_decoded(found["verifier"]), self._verifier):
            raise PeerRefused("SCRAM: the broker does not know the password's keys: it may not be the broker it seems")
        return None

    def _final(self, text: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(text)
        if found is None:
            raise PeerRefused(f"SCRAM: the broker's first message is malformed: {text[:200]!r}")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise PeerRefused("SCRAM: the broker's nonce does not continue ours")
        if not LEAST_ITERATIONS <= iterations <= _MOST_CLIENT_ITERATIONS:
            raise PeerRefused(
                f"SCRAM: the broker asks for {iterations} iterations, not for {LEAST_ITERATIONS} to "
                f"{_MOST_CLIENT_ITERATIONS}"
            )
        salt = _decoded(found["salt"])
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        keys = keys_of(self._mechanism, salted, salt, iterations)
        unproved = f"c=biws,r={nonce}"
        auth_message = f"{self._bare},{text},{unproved}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(keys.stored_key, auth_message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._verifier = hmac.digest(keys.server_key, auth_message, self._hash)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


def _text(data: bytes) -> str:
    if len(data) > _MOST_BYTES:
        raise PeerRefused(f"SCRAM: a message of {len(data)} bytes")
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        raise PeerRefused("SCRAM: a message that is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise PeerRefused("SCRAM: a field that is not base64") from None


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    if re.search(r"=(?!2C|3D)", name):
        raise PeerRefused("SCRAM: a user name with a bare =", told="Invalid SCRAM first client message format")
    return name.replace("=2C", ",").replace("=3D", "=")
