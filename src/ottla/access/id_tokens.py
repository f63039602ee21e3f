"""ID tokens of OpenID Connect (Core 1.0, 3.1.3.7): whether one tells who logged in, at this client, in this login.

Pure. `bearer_tokens.py` has the signature, the times, the issuer and the audience.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.access.bearer_tokens import KeyEntry, WrongToken, owner_of, signed_claims
from ottla.access.mechanisms.oauthbearer import NotTaken
from ottla.config.oauth import TokenRules

_MOST_SUBJECT = 1_000


class IdTokenRules(NamedTuple):
    """The demands of one client on ID tokens."""

    issuer: str
    client_id: str
    principal_claim: str = "sub"
    """The claim with the user's name."""
    skew_s: int = 30


class IdToken(NamedTuple):
    """A user, as the provider says it."""

    name: str
    """Without `User:`."""
    subject: str
    """The provider's own name of the user (`sub`), which never changes."""
    expires_s: float


def judge_id_token(
    token: str,
    keys: Sequence[KeyEntry],
    rules: IdTokenRules,
    now_s: float,
    *,
    nonce: str | None,
    access_token: str,
) -> IdToken | NotTaken:
    """The user who logged in, or why the token is not taken. UnknownKey where newer keys may know more.

    `nonce` is the one that the login was begun with; None for a token that came with a later access token (12.2).
    """
    try:
        found = signed_claims(token, keys)
        wanted = TokenRules(rules.issuer, (rules.client_id,), rules.principal_claim, skew_s=rules.skew_s)
        owner = owner_of(found.claims, wanted, now_s)
        _look_at_party(found.claims, rules.client_id)
        if nonce is not None and not _same(found.claims.get("nonce"), nonce):
            raise WrongToken("its nonce is not that of this login")
        _look_at_hash(found.claims, found.algorithm, access_token)
        subject = found.claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= _MOST_SUBJECT:
            raise WrongToken("its claim sub names nobody")
        _look_at_access_token(access_token, rules.principal_claim, owner.name)
    except WrongToken as fault:
        return NotTaken(str(fault))
    return IdToken(owner.name, subject, owner.expires_ms / 1000)


def _look_at_party(claims: Mapping[str, Any], client_id: str) -> None:
    """A token for several audiences says which of them asked for it, and it must be this client."""
    party, audiences = claims.get("azp"), claims["aud"]
    if party is None and isinstance(audiences, list) and len(audiences) > 1:
        raise WrongToken("it is for several audiences (aud), and does not say which of them asked for it (azp)")
    if party is not None and party != client_id:
        raise WrongToken(f"another client asked for it (azp), not {client_id}")


def _look_at_hash(claims: Mapping[str, Any], algorithm: str, access_token: str) -> None:
    """A token may say the hash of the access token that came with it, and then it is the one at hand (3.1.3.6)."""
    if "at_hash" not in claims:
        return
    size = algorithm[-3:] if algorithm[-3:] in ("256", "384", "512") else "512"  # Ed25519 hashes by SHA-512
    digest = hashlib.new(f"sha{size}", access_token.encode()).digest()
    wanted = base64.urlsafe_b64encode(digest[: len(digest) // 2]).decode().rstrip("=")
    if not _same(claims["at_hash"], wanted):
        raise WrongToken("it belongs to another access token (at_hash)")


def _look_at_access_token(access_token: str, claim: str, name: str) -> None:
    """Brokers take the user's name from the access token: where it can be read, it names the same user."""
    told = unproved_claims(access_token).get(claim)
    if isinstance(told, str) and told != name:
        raise WrongToken(f"its claim {claim} is {name[:80]!r}, and that of the access token {told[:80]!r}")


def unproved_claims(token: str) -> Mapping[str, Any]:
    """The claims of a JWT whose signature somebody else checks; empty where it is none."""
    try:
        content = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    except (ValueError, LookupError, RecursionError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}


def _same(given: object, wanted: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode(), wanted.encode())
