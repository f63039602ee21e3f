"""ID tokens: the good one, and one with each claim wrong."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey
from joserfc.jws import JWSRegistry
from tests.access.identity import CONSOLE, ISSUER, Provider

from ottla.access.bearer_tokens import UnknownKey, parse_keys
from ottla.access.id_tokens import IdToken, IdTokenRules, judge_id_token, unproved_claims
from ottla.access.mechanisms.oauthbearer import NotTaken

RULES = IdTokenRules(ISSUER, CONSOLE)
BY_NAME = IdTokenRules(ISSUER, CONSOLE, "preferred_username")
NONCE = "the nonce of this login"
ACCESS, ACCESS_HASH = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y", "77QmUPtjPfzWtF2AnpK9RQ"
"""The pair in the examples of OpenID Connect Core (A.3)."""
NOW = float(int(time.time()))
PROVIDER = Provider()
PROVIDER.now_s = lambda: NOW
KEYS = parse_keys(PROVIDER.jwks())


def id_token(**more: Any) -> str:
    return PROVIDER.token("4711", **({"aud": CONSOLE, "nonce": NONCE, "preferred_username": "anna"} | more))


def looked_at(
    token: str, rules: IdTokenRules = RULES, *, nonce: str | None = NONCE, access: str = ACCESS, now_s: float = NOW
) -> IdToken | NotTaken:
    return judge_id_token(token, KEYS, rules, now_s, nonce=nonce, access_token=access)


def why(token: str, rules: IdTokenRules = RULES, *, access: str = ACCESS) -> str:
    found = looked_at(token, rules, access=access)
    assert isinstance(found, NotTaken)
    return found.why


def test_the_claim_that_is_wanted_names_the_user() -> None:
    assert looked_at(id_token()) == IdToken("4711", "4711", NOW + 300)
    assert looked_at(id_token(), BY_NAME) == IdToken("anna", "4711", NOW + 300)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://identity.example.org/realms/other"}, "its issuer (iss) is not"),
        ({"iss": ISSUER + "/"}, "its issuer (iss) is not"),
        ({"iss": None}, "its issuer (iss) is not"),
        ({"aud": "another"}, "its audience (aud) is none of the console"),
        ({"aud": None}, "its audience (aud) is none of the console"),
        ({"aud": ["kafka"], "azp": CONSOLE}, "its audience (aud) is none of the console"),
        ({"aud": {"the console": True}}, "neither a text nor a list of texts"),
        ({"aud": [CONSOLE, "kafka"]}, "does not say which of them asked for it (azp)"),
        ({"aud": [CONSOLE, "kafka"], "azp": "kafka"}, "another client asked for it (azp)"),
        ({"azp": "another"}, "another client asked for it (azp)"),
        ({"azp": 7}, "another client asked for it (azp)"),
        ({"exp": NOW - 31}, "it has expired"),
        ({"exp": NOW - 1}, "it expires before it is issued"),
        ({"exp": None}, "its claim exp is no time"),
        ({"iat": None}, "its claim iat is no time"),
        ({"iat": NOW + 31}, "issued in the future"),
        ({"nbf": NOW + 31}, "does not count yet (nbf)"),
        ({"nonce": None}, "its nonce is not that of this login"),
        ({"nonce": ""}, "its nonce is not that of this login"),
        ({"nonce": "of another login"}, "its nonce is not that of this login"),
        ({"nonce": [NONCE]}, "its nonce is not that of this login"),
        ({"at_hash": ACCESS_HASH[:-1]}, "it belongs to another access token (at_hash)"),
        ({"at_hash": 7}, "it belongs to another access token (at_hash)"),
        ({"sub": None}, "its claim sub names nobody"),
        ({"sub": 4711}, "its claim sub names nobody"),
        ({"sub": "x" * 1001}, "its claim sub names nobody"),
        ({"preferred_username": None}, "its claim preferred_username names nobody"),
        ({"preferred_username": "  "}, "its claim preferred_username names nobody"),
        ({"preferred_username": "anna\nUser:admin"}, "its claim preferred_username names nobody"),
        ({"preferred_username": ["anna"]}, "its claim preferred_username names nobody"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused_with_the_reason(claims: dict[str, Any], reason: str) -> None:
    assert reason in why(id_token(**claims), BY_NAME)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": [CONSOLE]},
        {"aud": [CONSOLE, "kafka"], "azp": CONSOLE},
        {"azp": CONSOLE},
        {"at_hash": ACCESS_HASH},
        {"exp": NOW - 29, "iat": NOW - 300},
        {"iat": NOW + 29},
        {"auth_time": "of no interest"},
    ],
)
def test_a_token_with_what_may_be_there_is_taken(claims: dict[str, Any]) -> None:
    assert isinstance(looked_at(id_token(**claims)), IdToken)


def test_a_token_by_another_key_or_by_none_is_refused() -> None:
    claims = PROVIDER.claims(aud=CONSOLE, nonce=NONCE)
    foreign = Provider()
    assert "its signature is not by the key" in why(foreign.token(aud=CONSOLE, nonce=NONCE))
    public = json.dumps(PROVIDER.keys["one"].as_dict(private=False)).encode()
    shared = jwt.encode(
        {"alg": "HS256", "kid": "one"}, claims, OctKey.import_key(public), registry=JWSRegistry(algorithms=["HS256"])
    )
    assert "it is signed by 'HS256', which is not taken" in why(shared)
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({"alg": "none"}, claims)
    ]
    assert "it is signed by 'none', which is not taken" in why(".".join([*parts, ""]))
    assert "it is no signed JWT" in why("no token")


def test_a_token_by_a_key_that_is_not_at_hand_asks_for_newer_keys() -> None:
    other = Provider()
    other.keys = {"two": ECKey.generate_key("P-256", {"kid": "two"})}
    with pytest.raises(UnknownKey):
        looked_at(other.token(kid="two", aud=CONSOLE, nonce=NONCE))


def test_the_hash_of_the_access_token_goes_by_the_algorithm_of_the_signature() -> None:
    key = OKPKey.generate_key("Ed25519", {"kid": "ed"})
    keys = parse_keys(json.dumps({"keys": [key.as_dict(private=False, kid="ed", use="sig")]}).encode())
    registry = JWSRegistry(algorithms=["Ed25519"])

    def found(at_hash: str) -> IdToken | NotTaken:
        claims = PROVIDER.claims(aud=CONSOLE, nonce=NONCE, at_hash=at_hash)
        token = jwt.encode({"alg": "Ed25519", "kid": "ed"}, claims, key, registry=registry)
        return judge_id_token(token, keys, RULES, NOW, nonce=NONCE, access_token=ACCESS)

    # The first half of SHA-512, as openssl has it.
    assert isinstance(found("q7nS86GgvvFaZkzALLWqJYaJIKw2wCDAVfCAsm5CrBM"), IdToken)
    assert isinstance(found(ACCESS_HASH), NotTaken)


def test_brokers_must_know_the_user_by_the_same_name_where_the_access_token_can_be_read() -> None:
    assert isinstance(looked_at(id_token(), access=PROVIDER.token("4711")), IdToken)
    assert "that of the access token 'another'" in why(id_token(), access=PROVIDER.token("another"))
    assert isinstance(looked_at(id_token(), BY_NAME, access=PROVIDER.token("another")), IdToken), "it does not say"
    told = PROVIDER.token("another", preferred_username="bo")
    assert "its claim preferred_username is 'anna', and that of the access token 'bo'" in why(
        id_token(), BY_NAME, access=told
    )


def test_a_token_that_comes_later_needs_no_nonce() -> None:
    assert isinstance(looked_at(id_token(nonce=None), nonce=None), IdToken)
    assert isinstance(looked_at(id_token(aud="another"), nonce=None), NotTaken)


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.e30", "a.W10.c", "a.ÿ.c", "." * 5, "a." + "W" * 100_000])
def test_a_text_that_is_no_token_claims_nothing(text: str) -> None:
    assert unproved_claims(text) == {}


_ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.lists(st.text(max_size=5))
_CLAIMS = ("iss", "aud", "azp", "exp", "iat", "nbf", "nonce", "at_hash", "sub", "preferred_username", "scope")


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(_CLAIMS), _ODD, min_size=1))
def test_no_claim_does_anything_else_than_pass_or_be_refused(claims: dict[str, Any]) -> None:
    given = PROVIDER.claims(aud=CONSOLE, nonce=NONCE, preferred_username="anna") | claims
    token = jwt.encode({"alg": "ES256", "kid": "one"}, given, PROVIDER.keys["one"])
    found = looked_at(token, BY_NAME)
    assert isinstance(found, NotTaken) or found.name == given["preferred_username"]
