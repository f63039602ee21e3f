"""Assertions, by which a client proves who it is to an identity provider without a secret."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, Key, RSAKey
from tests.access.identity import Provider, served

from ottla.client import oauth
from ottla.client.oauth import TokenSource, TokenUnavailable, obtained
from ottla.client.security import security_of

PREFIX = "sasl.oauthbearer.assertion."
URL, SECRET = "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.secret"
ID = "sasl.oauthbearer.client.credentials.client.id"
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.login.retry.backoff.max.ms": "10"}
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
JWT_BEARER = {RETRIEVER: "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"}
KEYS: dict[str, Key] = {"RS256": RSAKey.generate_key(2048), "ES256": ECKey.generate_key("P-256")}


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Provider, str]]:
    one = Provider()
    files = [f"file://{tmp_path}/{name}" for name in ("key.pem", "assertion", "template.json")]
    with served(one) as url:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", ",".join([f"{url}/token", *files]))
        yield one, f"{url}/token"
    oauth._kept.clear()


def source(given: dict[str, Any]) -> TokenSource:
    found = security_of(SASL | given).tokens
    assert found is not None
    return found


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    return header, claims


def signing(tmp_path: Path, algorithm: str = "RS256", passphrase: str | None = None, **claims: str) -> dict[str, str]:
    path = tmp_path / "key.pem"
    path.write_bytes(KEYS[algorithm].as_pem(private=True, password=passphrase))
    found = {"private.key.file": str(path), "algorithm": algorithm} | {f"claim.{name}": claims[name] for name in claims}
    if passphrase is not None:
        found["private.key.passphrase"] = passphrase
    return {f"{PREFIX}{name}": value for name, value in found.items()}


@pytest.mark.parametrize(("algorithm", "passphrase"), [("RS256", None), ("ES256", None), ("RS256", "hunter2")])
def test_an_assertion_is_signed_and_traded_for_a_token(
    provider: tuple[Provider, str], tmp_path: Path, algorithm: str, passphrase: str | None
) -> None:
    one, url = provider
    one.clients["orders"] = KEYS[algorithm]
    options = signing(tmp_path, algorithm, passphrase, iss="orders", sub="orders", aud="kafka")
    given = {URL: url, **JWT_BEARER, "sasl.oauthbearer.scope": "kafka", **options}
    assert parts(obtained(source(given)).token)[1]["sub"] == "orders"
    [(_, form)] = one.asked
    assert form["scope"] == ["kafka"] and "client_id" not in form
    header, claims = parts(form["assertion"][0])
    assert header == {"alg": algorithm, "typ": "JWT"}
    assert claims["exp"] - claims["iat"] == 300 and claims["iat"] - claims["nbf"] == 60
    assert {name: claims[name] for name in ("iss", "sub", "aud")} == {"iss": "orders", "sub": "orders", "aud": "kafka"}
    assert "jti" not in claims
    assert "hunter2" not in f"{source(given)!r} {source(given).assertion!r}"


def test_an_assertion_stands_for_the_secret_of_client_credentials(
    provider: tuple[Provider, str], tmp_path: Path
) -> None:
    one, url = provider
    one.clients["orders"] = KEYS["ES256"]
    (tmp_path / "template.json").write_text(
        '{"header": {"kid": "k", "own": 1}, "payload": {"iss": "x", "tenant": "t"}}'
    )
    given = {
        URL: url, ID: "orders", **signing(tmp_path, "ES256", iss="orders"), f"{PREFIX}claim.exp.seconds": "10",
        f"{PREFIX}claim.nbf.seconds": "0", f"{PREFIX}claim.jti.include": "true",
        f"{PREFIX}template.file": str(tmp_path / "template.json"),
    }  # fmt: skip
    assert parts(obtained(source(given)).token)[1]["sub"] == "orders"
    oauth._kept.clear()
    obtained(source(given))
    (_, form), (_, again) = one.asked
    assert form["client_id"] == ["orders"]
    header, claims = parts(form["client_assertion"][0])
    assert header == {"kid": "k", "own": 1, "alg": "ES256", "typ": "JWT"}
    assert (claims["iss"], claims["tenant"]) == ("orders", "t"), "options go over the template"
    assert claims["exp"] - claims["iat"] == 10 and claims["nbf"] == claims["iat"]
    assert parts(again["client_assertion"][0])[1]["jti"] != claims["jti"]


def test_an_assertion_that_another_program_keeps_is_read_for_each_token(
    provider: tuple[Provider, str], tmp_path: Path
) -> None:
    one, url = provider
    one.clients["robot"], one.keys["robot"] = KEYS["ES256"], KEYS["ES256"]
    path = tmp_path / "assertion"
    given = {URL: url, **JWT_BEARER, f"{PREFIX}file": str(path)}
    for name in ("first", "second"):
        path.write_text(one.token(name, kid="robot", iss="robot", nbf=int(time.time()) - 1) + "\n")
        oauth._kept.clear()
        obtained(source(given))
    assert [parts(form["assertion"][0])[1]["sub"] for _, form in one.asked] == ["first", "second"]
    path.unlink()
    oauth._kept.clear()
    with pytest.raises(TokenUnavailable, match="cannot be read: No such file") as fault:
        obtained(source(given))
    assert fault.value.passing, "it may be written in a moment"


@pytest.mark.parametrize(
    ("key", "template", "said"),
    [
        (b"", None, "holds no private key for RS256"),
        (KEYS["RS256"].as_pem(private=True, password="other"), None, "or the passphrase is another"),
        (KEYS["RS256"].as_pem(private=False), None, "holds a public key"),
        (None, "[]", "holds no JSON object"),
        (None, '{"header": 1}', "must hold the objects header and payload"),
        (None, '{"claims": {}}', "must hold the objects header and payload"),
    ],
)
def test_files_that_will_not_do_are_told_of_without_what_they_hold(
    provider: tuple[Provider, str], tmp_path: Path, key: bytes | None, template: str | None, said: str
) -> None:
    one, url = provider
    given = {URL: url, **JWT_BEARER, **signing(tmp_path)}
    if key is not None:
        (tmp_path / "key.pem").write_bytes(key)
    if template is not None:
        (tmp_path / "template.json").write_text(template)
        given[f"{PREFIX}template.file"] = str(tmp_path / "template.json")
    with pytest.raises(TokenUnavailable, match=said) as fault:
        obtained(source(given))
    assert not fault.value.passing and "PRIVATE" not in str(fault.value)
    assert one.asked == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs a key to be signed with"),
        ({f"{PREFIX}claim.iss": "a"}, "needs a key to be signed with"),
        ({f"{PREFIX}private.key.file": "key.pem"}, "must be a path from / on"),
        ({f"{PREFIX}private.key.file": "/etc/shadow"}, "file:///etc/shadow is not allowed"),
        ({f"{PREFIX}file": "/etc/shadow"}, "file:///etc/shadow is not allowed"),
        ({f"{PREFIX}file": "/a", f"{PREFIX}claim.iss": "a"}, "leave out .*claim.iss"),
        ({f"{PREFIX}algorithm": "HS256"}, "must be RS256 or ES256"),
        ({f"{PREFIX}claim.exp.seconds": "86401"}, "from 0 to 86400, not 86401"),
        ({f"{PREFIX}claim.nbf.seconds": "-1"}, "from 0 to 3600, not -1"),
        ({f"{PREFIX}claim.jti.include": "yes"}, "must be true or false"),
        ({SECRET: "hunter2"}, "both prove who the client is"),
        ({ID: "orders"}, "is not sent with JwtBearerJwtRetriever"),
    ],
)
def test_options_that_contradict_are_refused_by_name(
    provider: tuple[Provider, str], tmp_path: Path, given: dict[str, str], said: str
) -> None:
    signed = signing(tmp_path) if not {f"{PREFIX}claim.iss", f"{PREFIX}file"} & given.keys() and given else {}
    with pytest.raises(ValueError, match=said) as fault:
        source({URL: provider[1], **JWT_BEARER, **signed, **given})
    assert "hunter2" not in str(fault.value)
