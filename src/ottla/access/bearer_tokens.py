"""Tokens of identity providers (JWT, RFC 7519): whether one is signed by a known key, in time, and meant for us.

Pure: keys and the time go in. `joserfc` (the extra `security`) checks signatures; it is imported at the first token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.access.mechanisms.oauthbearer import MOST_TOKEN_BYTES, Bearer, NotTaken
from ottla.config.oauth import TokenRules

if TYPE_CHECKING:
    from joserfc.jwk import Key

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA",
)  # fmt: skip
"""Signatures by a private key alone. With HMAC everybody who can check a token could make one."""
MOST_KEYS = 100
_LEAST_RSA_BITS = 2048
_MOST_HEADER_BYTES = 16 * 1024
_LATEST_S = 253_402_300_799
"""The end of the year 9999."""


class WrongKeys(ValueError):
    """A text that holds no keys for tokens."""


class UnknownKey(Exception):
    """The token is signed by a key that is not among those at hand: newer ones may hold it."""


class KeyEntry(NamedTuple):
    """One key that may have signed a token."""

    id: str
    """Its `kid`; empty where it has none."""
    algorithm: str
    """The only algorithm that it is for; empty: every one of its kind."""
    key: Key


def parse_keys(text: bytes) -> Sequence[KeyEntry]:
    """The keys in a JWKS (RFC 7517) that can check signatures; WrongKeys where there is none.

    Keys of other kinds are passed over, as the RFC wants it: secrets for HMAC, keys for encryption, short RSA keys.
    """
    try:
        found = json.loads(text)
        listed = found["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise WrongKeys('it is no JWKS: {"keys": [...]}') from None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise WrongKeys(f"its keys must be a list of {MOST_KEYS} at most")
    entries = [entry for each in listed if (entry := _entry(each)) is not None]
    if not entries:
        raise WrongKeys(
            f"none of its {len(listed)} keys can check a signature (RSA of {_LEAST_RSA_BITS} bits, EC, OKP)"
        )
    return entries


class WrongToken(Exception):
    """The token is not taken, whatever keys may come; the text says why."""


class SignedClaims(NamedTuple):
    """The content of a token whose signature is good."""

    claims: Mapping[str, Any]
    algorithm: str
    """The `alg` of its signature."""


def judge(token: str, keys: Sequence[KeyEntry], rules: TokenRules, now_s: float) -> Bearer | NotTaken:
    """The owner of a token and its end, or why it is not taken. UnknownKey where newer keys may know more."""
    try:
        return owner_of(signed_claims(token, keys).claims, rules, now_s)
    except WrongToken as fault:
        return NotTaken(str(fault))


def _entry(member: Any) -> KeyEntry | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, RSAKey

    if not isinstance(member, dict) or member.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    operations = member.get("key_ops", ["verify"])
    if member.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    public = {name: value for name, value in member.items() if name in ("kty", "n", "e", "crv", "x", "y")}
    try:
        key = JWKRegistry.import_key(public)
        if isinstance(key, RSAKey) and key.raw_value.key_size < _LEAST_RSA_BITS:
            return None
    except (JoseError, ValueError, TypeError, KeyError, OverflowError, UnsupportedAlgorithm):
        return None
    name, algorithm = member.get("kid", ""), member.get("alg", "")
    return KeyEntry(name, algorithm, key) if isinstance(name, str) and isinstance(algorithm, str) else None


def signed_claims(token: str, keys: Sequence[KeyEntry]) -> SignedClaims:
    """The claims of a token whose signature is good; WrongToken where it is not, UnknownKey where keys are missing."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry, extract_compact, validate_compact

    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    registry.max_header_length = _MOST_HEADER_BYTES
    registry.max_payload_length = MOST_TOKEN_BYTES
    try:
        shown = extract_compact(token.encode(), registry=registry)
        header = shown.headers()
        if not isinstance(header, dict) or "crit" in header or "b64" in header:
            raise WrongToken("its header is none that is taken here")
        if header.get("alg") not in ALGORITHMS:
            raise WrongToken(
                f"it is signed by {str(header.get('alg'))[:20]!r}, which is not taken: {', '.join(ALGORITHMS)}"
            )
        entry = _key_for(header, keys)
        if not validate_compact(shown, entry.key, registry=registry):
            raise WrongToken("its signature is not by the key that it names")
        claims = json.loads(shown.payload or b"", parse_constant=_no_number)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError, UnsupportedAlgorithm) as fault:
        raise WrongToken(f"it is no signed JWT ({type(fault).__name__})") from None
    if not isinstance(claims, dict):
        raise WrongToken("its content is no JSON object")
    return SignedClaims(claims, header["alg"])


def _key_for(header: Mapping[str, Any], keys: Sequence[KeyEntry]) -> KeyEntry:
    """The key that the header names; without a name the only one there is."""
    name, algorithm = header.get("kid"), header["alg"]
    if name is not None and not isinstance(name, str):
        raise WrongToken("its kid is no text")
    named = [entry for entry in keys if name is None or entry.id == name]
    if not named:
        raise UnknownKey(f"it names the key {str(name)[:80]!r}, which the identity provider does not show")
    if name is None and len(named) > 1:
        raise WrongToken(f"it names no key, and there are {len(named)}")
    if named[0].algorithm not in ("", algorithm):
        raise WrongToken(f"it is signed by {algorithm}, and its key is for {named[0].algorithm[:20]}")
    return named[0]


def owner_of(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> Bearer:
    """The owner by the times, the issuer, the audience, the scope and the subject (RFC 7519, 4.1), or WrongToken."""
    expires, issued = _moment(claims, "exp"), _moment(claims, "iat")
    if now_s >= expires + rules.skew_s:
        raise WrongToken("it has expired")
    if issued > now_s + rules.skew_s:
        raise WrongToken("it is issued in the future: are the clocks right?")
    if issued >= expires:
        raise WrongToken("it expires before it is issued")
    if "nbf" in claims and _moment(claims, "nbf") > now_s + rules.skew_s:
        raise WrongToken("it does not count yet (nbf)")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise WrongToken(f"its issuer (iss) is not {rules.issuer}")
    audiences = _texts(claims, "aud")
    if rules.audiences and not set(audiences) & set(rules.audiences):
        raise WrongToken(f"its audience (aud) is none of {', '.join(rules.audiences)}")
    if audiences and not rules.audiences:
        raise WrongToken("it names an audience (aud), and sasl.oauthbearer.expected.audience expects none")
    _texts(claims, rules.scope_claim)
    name = claims.get(rules.subject_claim)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise WrongToken(f"its claim {rules.subject_claim} names nobody")
    ends = expires if expires > now_s else expires + rules.skew_s
    return Bearer(name, int(ends * 1000))


def _moment(claims: Mapping[str, Any], name: str) -> float:
    """A time in seconds, which must be there."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongToken(f"its claim {name} is no time")
    if not (0 <= value <= _LATEST_S) or not math.isfinite(value):
        raise WrongToken(f"its claim {name} is out of range")
    return float(value)


def _texts(claims: Mapping[str, Any], name: str) -> Sequence[str]:
    """A claim that is a text or a list of texts; empty where it is not there."""
    value = claims.get(name, [])
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise WrongToken(f"its claim {name} is neither a text nor a list of texts")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
