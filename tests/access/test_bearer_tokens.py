"""Tokens of identity providers: the good ones, and every kind of weak one."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from tests.access.identity import AUDIENCE, ISSUER, Provider

from ottla.access.bearer_tokens import MOST_KEYS, UnknownKey, WrongKeys, judge, parse_keys
from ottla.access.mechanisms.oauthbearer import Bearer, NotTaken
from ottla.config.oauth import TokenRules

RULES = TokenRules(issuer=ISSUER, audiences=("other", AUDIENCE))
PROVIDER = Provider()
PROVIDER.keys["rsa"] = RSAKey.generate_key(2048, {"kid": "rsa"})
NOW = time.time()
PROVIDER.now_s = lambda: NOW


def looked_at(token: str, rules: TokenRules = RULES, now_s: float | None = None) -> Bearer | NotTaken:
    return judge(token, parse_keys(PROVIDER.jwks()), rules, NOW if now_s is None else now_s)


def why(token: str, rules: TokenRules = RULES) -> str:
    found = looked_at(token, rules)
    assert isinstance(found, NotTaken)
    return found.why


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsigned(header: dict[str, Any], signature: bytes = b"") -> str:
    return f"{part(header)}.{part(PROVIDER.claims())}.{part(signature)}"


@pytest.mark.parametrize("kid", ["one", "rsa"])
def test_a_token_by_a_known_key_belongs_to_its_subject_until_it_expires(kid: str) -> None:
    expires = int(NOW) + 100
    assert looked_at(PROVIDER.token("alice", kid, exp=expires)) == Bearer("alice", expires * 1000)


def test_a_key_of_the_third_kind_signs_too() -> None:
    key = OKPKey.generate_key("Ed25519", {"kid": "ed"})
    keys = parse_keys(json.dumps({"keys": [key.as_dict(private=False)]}).encode())
    token = jwt.encode({"alg": "Ed25519", "kid": "ed"}, PROVIDER.claims(), key, algorithms=["Ed25519"])
    assert isinstance(judge(token, keys, RULES, NOW), Bearer)


def test_other_claims_may_hold_the_name_and_the_scope() -> None:
    rules = RULES._replace(subject_claim="client_id", scope_claim="scp")
    found = looked_at(PROVIDER.token(client_id="robot", scp=["read", "write"]), rules)
    assert isinstance(found, Bearer)
    assert found.name == "robot"


def with_the_public_key_as_secret() -> str:
    """The classic: the key that everybody knows, taken as the secret of HMAC."""
    public = PROVIDER.keys["rsa"].as_pem(private=False)
    said = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(PROVIDER.claims())}"
    return f"{said}.{part(hmac.digest(public, said.encode(), 'sha256'))}"


def by_a_foreign_key(**header: Any) -> str:
    key = ECKey.generate_key("P-256", {"kid": "one"})
    return jwt.encode({"alg": "ES256", "kid": "one", **header}, PROVIDER.claims(), key)


def altered() -> str:
    header, _, signature = PROVIDER.token("bob").split(".")
    return f"{header}.{part(PROVIDER.claims('admin'))}.{signature}"


def deep(where: str) -> str:
    nested = b"[" * 20_000 + b"]" * 20_000
    if where == "header":
        return f"{part(nested)}.{part({})}.{part(b'')}"
    claims = json.dumps(PROVIDER.claims()).encode()[:-1] + b', "x": ' + nested + b"}"
    return jws.serialize_compact({"alg": "ES256", "kid": "one"}, claims, PROVIDER.keys["one"])


WEAK: dict[str, tuple[Callable[[], str], str]] = {
    "no signature": (lambda: unsigned({"alg": "none"}), "'none', which is not taken"),
    "no signature, known key": (lambda: unsigned({"alg": "None", "kid": "one"}), "'None', which is not taken"),
    "no algorithm": (lambda: unsigned({"kid": "one"}), "no signed JWT"),
    "an algorithm that is a list": (lambda: unsigned({"alg": ["ES256"], "kid": "one"}), "not taken"),
    "HMAC by the public key": (with_the_public_key_as_secret, "'HS256', which is not taken"),
    "an empty signature": (lambda: unsigned({"alg": "ES256", "kid": "one"}), "signature"),
    "a signature of zeros": (lambda: unsigned({"alg": "ES256", "kid": "one"}, bytes(64)), "signature"),
    "another key's signature": (by_a_foreign_key, "signature"),
    "the key in the token": (
        lambda: by_a_foreign_key(jwk=ECKey.generate_key("P-256").as_dict(private=False)),
        "signature",
    ),
    "altered claims": (altered, "signature"),
    "the key of another algorithm": (lambda: unsigned({"alg": "RS256", "kid": "one"}, b"x"), "no signed JWT"),
    "a kid that is no text": (lambda: unsigned({"alg": "ES256", "kid": {"a": 1}}), "kid is no text"),
    "no kid where there are several": (lambda: unsigned({"alg": "ES256"}), "names no key, and there are 2"),
    "a critical extension": (lambda: PROVIDER.token(header={"crit": ["cty"], "cty": "x"}), "header is none"),
    "an unencoded payload": (lambda: PROVIDER.token(header={"b64": False, "crit": ["b64"]}), "header is none"),
    "a megabyte": (lambda: f"{part({'alg': 'ES256'})}.{'A' * 1_000_000}.AA", "no signed JWT"),
    "a deep header": (lambda: deep("header"), "no signed JWT"),
    "deep claims": (lambda: deep("claims"), "no signed JWT"),
    "two parts": (lambda: "a.b", "no signed JWT"),
    "five parts, as of an encrypted one": (lambda: "a.b.c.d.e", "no signed JWT"),
    "no JSON": (lambda: "AAAA.AAAA.AAAA", "no signed JWT"),
    "a list for claims": (
        lambda: jws.serialize_compact({"alg": "ES256", "kid": "one"}, "[]", PROVIDER.keys["one"]),
        "no JSON object",
    ),
    "an end that is infinite": (
        lambda: jws.serialize_compact({"alg": "ES256", "kid": "one"}, '{"exp": Infinity}', PROVIDER.keys["one"]),
        "no signed JWT",
    ),
    "expired": (lambda: PROVIDER.token(iat=NOW - 90, exp=NOW - 30), "expired"),
    "no expiry": (lambda: PROVIDER.token(exp=None), "exp is no time"),
    "an expiry in words": (lambda: PROVIDER.token(exp="9999999999"), "exp is no time"),
    "an expiry that is true": (lambda: PROVIDER.token(exp=True), "exp is no time"),
    "an expiry beyond all times": (lambda: PROVIDER.token(exp=10**300), "exp is out of range"),
    "no time of issue": (lambda: PROVIDER.token(iat=None), "iat is no time"),
    "issued tomorrow": (lambda: PROVIDER.token(iat=NOW + 86_400, exp=NOW + 90_000), "in the future"),
    "issued after its end": (lambda: PROVIDER.token(iat=NOW + 10, exp=NOW + 5), "before it is issued"),
    "good from tomorrow on": (lambda: PROVIDER.token(nbf=NOW + 86_400), "nbf"),
    "another issuer": (lambda: PROVIDER.token(iss=ISSUER + "/"), "iss"),
    "no issuer": (lambda: PROVIDER.token(iss=None), "iss"),
    "a list of issuers": (lambda: PROVIDER.token(iss=[ISSUER]), "iss"),
    "another audience": (lambda: PROVIDER.token(aud="shop"), "aud"),
    "no audience": (lambda: PROVIDER.token(aud=None), "aud"),
    "an audience that is an object": (lambda: PROVIDER.token(aud={"kafka": 1}), "aud"),
    "a scope that is a number": (lambda: PROVIDER.token(scope=1), "scope"),
    "no subject": (lambda: PROVIDER.token(sub=None), "names nobody"),
    "an empty subject": (lambda: PROVIDER.token(sub=" "), "names nobody"),
    "a subject that is a number": (lambda: PROVIDER.token(sub=7), "names nobody"),
    "a line end in the subject": (lambda: PROVIDER.token(sub="bob\nlogin of admin"), "names nobody"),
}


@pytest.mark.parametrize("kind", WEAK)
def test_a_weak_token_is_not_taken_and_the_log_says_why(kind: str) -> None:
    token, said = WEAK[kind]
    assert said in why(token())


def test_a_kid_is_compared_and_never_opened(tmp_path) -> None:
    path = tmp_path / "key"
    path.write_text("secret")
    for kid in (str(path), "../../../dev/null", f"file://{path}", "' or 1=1"):
        token = unsigned({"alg": "ES256", "kid": kid}, bytes(64))
        with pytest.raises(UnknownKey, match="does not show"):
            looked_at(token)


def test_clocks_that_differ_are_borne_with_up_to_the_skew() -> None:
    token = PROVIDER.token(iat=NOW, exp=NOW + 100)
    late = looked_at(token, now_s=NOW + 129)
    assert late == Bearer("alice", int((NOW + 130) * 1000))
    assert isinstance(looked_at(token, now_s=NOW + 130), NotTaken)
    assert isinstance(looked_at(token, now_s=NOW - 30), Bearer)
    assert isinstance(looked_at(token, now_s=NOW - 31), NotTaken)
    assert isinstance(looked_at(token, RULES._replace(skew_s=0), now_s=NOW + 100), NotTaken)


def test_a_token_for_somebody_is_not_taken_where_no_audience_is_expected() -> None:
    nobody = RULES._replace(audiences=())
    assert "expects none" in why(PROVIDER.token(), nobody)
    assert isinstance(looked_at(PROVIDER.token(aud=None), nobody), Bearer)


def test_a_single_key_needs_no_name() -> None:
    key = ECKey.generate_key("P-256")
    shown = {name: value for name, value in key.as_dict(private=False).items() if name != "kid"}
    keys = parse_keys(json.dumps({"keys": [shown]}).encode())
    token = jwt.encode({"alg": "ES256"}, PROVIDER.claims(), key)
    assert isinstance(judge(token, keys, RULES, NOW), Bearer)


def test_a_key_signs_by_its_own_algorithm_alone() -> None:
    key = PROVIDER.keys["rsa"]
    keys = parse_keys(json.dumps({"keys": [key.as_dict(private=False) | {"alg": "PS256"}]}).encode())
    found = judge(PROVIDER.token(kid="rsa"), keys, RULES, NOW)
    assert isinstance(found, NotTaken)
    assert "its key is for PS256" in found.why


def test_keys_that_cannot_check_a_signature_are_passed_over() -> None:
    private, short = PROVIDER.keys["rsa"].as_dict(private=True), RSAKey.generate_key(1024).as_dict(private=False)
    others: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one"}, {"kty": "AKP"}, short, {"kty": "EC"}, None, 7,
        {**private, "use": "enc"}, {**private, "key_ops": ["sign"]}, {"kty": "RSA", "n": 5, "e": "AQAB"},
    ]  # fmt: skip
    assert [entry.id for entry in parse_keys(PROVIDER.jwks(*others))] == ["one", "rsa"]
    with pytest.raises(WrongKeys, match="none of its 9 keys"):
        parse_keys(json.dumps({"keys": others}).encode())


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b"[" * 100_000, b"\xff",
             json.dumps({"keys": [{}] * (MOST_KEYS + 1)}).encode()]
)  # fmt: skip
def test_a_text_without_keys_is_refused(text: bytes) -> None:
    with pytest.raises(WrongKeys):
        parse_keys(text)


_ODD = st.none() | st.integers() | st.text(max_size=50) | st.lists(st.text(max_size=5), max_size=2)
_MEMBERS = ("n", "e", "crv", "x", "y", "kid", "alg", "use", "key_ops")
_KINDS = st.sampled_from(["RSA", "EC", "OKP", "oct", None])
_CURVES = st.sampled_from(["P-256", "secp256k1", "Ed25519", "X448", 7])


@settings(max_examples=60, deadline=None)
@given(_KINDS, _CURVES, st.dictionaries(st.sampled_from(_MEMBERS), _ODD), _ODD, _ODD)
def test_no_key_and_no_header_does_anything_else_than_pass_or_be_refused(kind, curve, member, kid, algorithm) -> None:
    real = PROVIDER.keys["one"].as_dict(private=False)
    keys = parse_keys(
        json.dumps({"keys": [{"kty": kind, "crv": curve, **member}, real | member | {"alg": ""}, real]}).encode()
    )
    token = unsigned({"alg": algorithm, "kid": kid, "crv": curve})
    with contextlib.suppress(UnknownKey):
        assert isinstance(judge(token, keys, RULES, NOW), NotTaken)
