"""Tokens of our own clients: the options that name their source, and when they are fetched."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access.identity import Provider, served

from ottla.client import oauth
from ottla.client.core.login import shown_token
from ottla.client.errors import BrokerUnreachable, Refused
from ottla.client.oauth import TokenSource, TokenUnavailable, obtained
from ottla.client.security import Security, security_of

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
ID, SECRET = (f"sasl.oauthbearer.client.credentials.client.{part}" for part in ("id", "secret"))
JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
QUICK = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "50"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    one = Provider()
    with served(one) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_ALLOWED_URLS", f"{url}/token,https://a/b")
        one.url = url  # type: ignore[attr-defined]
        yield one


@pytest.fixture(autouse=True)
def forgotten() -> None:
    oauth._kept.clear()


def source(given: dict[str, Any]) -> TokenSource:
    found = security_of(SASL | given).tokens
    assert found is not None
    return found


def at(provider: Provider, **more: str) -> dict[str, Any]:
    return {URL: f"{provider.url}/token", ID: "robot", SECRET: "secret", **QUICK, **more}  # type: ignore[attr-defined]


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def test_kafkas_names_librdkafkas_names_and_the_login_module_name_the_same_source(provider: Provider) -> None:
    url = f"{provider.url}/token"  # type: ignore[attr-defined]
    kafkas = {URL: url, ID: "robot", SECRET: "s=cret", "sasl.oauthbearer.scope": "a b",
              "sasl.oauthbearer.extensions": "tenant=blue"}  # fmt: skip
    librdkafkas = {URL: url, "sasl.oauthbearer.client.id": "robot", "sasl.oauthbearer.client.secret": "s=cret",
                   "sasl.oauthbearer.scope": "a b", "sasl.oauthbearer.extensions": "tenant=blue",
                   "sasl.oauthbearer.method": "oidc"}  # fmt: skip
    module = f'{JAAS} clientId="robot" clientSecret="s=cret" scope="a b" extension_tenant="blue";'
    assert source(kafkas) == source(librdkafkas) == source({URL: url, "sasl.jaas.config": module})


def test_a_token_is_asked_for_with_the_credentials_and_kept_until_it_is_nearly_over(provider: Provider) -> None:
    one = source(at(provider, **{"sasl.oauthbearer.scope": "kafka"}))
    asked = len(provider.asked)
    found = [obtained(one).token for _ in range(3)]
    assert claims(found[0])["sub"] == "robot"
    assert claims(found[0])["scope"] == "kafka"
    assert len(set(found)) == 1
    assert len(provider.asked) == asked + 1
    oauth._kept[one].refresh_s = 0
    assert claims(obtained(one).token)["sub"] == "robot"
    while len(provider.asked) < asked + 2:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("lives_s", "least", "most"), [(300, 240, 255), (3600, 2880, 3060), (10_000, 8000, 8500), (1, 0.8, 0.85)]
)
def test_a_token_is_fetched_anew_when_kafkas_client_would(lives_s: float, least: float, most: float) -> None:
    one = TokenSource()
    assert least <= oauth._refresh_at(one, 5000 + lives_s, 5000) - 5000 <= most
    late = TokenSource(numbers=tuple((dict(one.numbers) | {"sasl.login.refresh.window.factor": 1.0}).items()))
    assert oauth._refresh_at(late, 5000 + 1000, 5000) == 5000 + 700, "300 s before the end"
    assert oauth._refresh_at(late, None, 5000) == 5000


def test_a_provider_that_fails_for_a_moment_is_asked_again_and_one_that_refuses_is_not(provider: Provider) -> None:
    provider.answers = [(503, b""), (429, b"")]
    assert obtained(source(at(provider, **{"sasl.login.retry.backoff.max.ms": "60000"}))).token
    asked = len(provider.asked)
    with pytest.raises(TokenUnavailable, match="answered 401") as fault:
        obtained(source(at(provider, **{SECRET: "hunter2"})))
    assert not fault.value.passing
    assert len(provider.asked) == asked + 1
    assert "hunter2" not in str(fault.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"access_token": 7}', b"[" * 100_000])
def test_answers_without_a_token_are_refused(provider: Provider, content: bytes) -> None:
    provider.answers = [(200, content)]
    with pytest.raises(TokenUnavailable, match="answered"):
        obtained(source(at(provider)))


def test_the_token_at_hand_is_shown_while_no_newer_one_can_be_had(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    one = source(at(provider))
    token = obtained(one).token
    kept = oauth._kept[one]
    kept.refresh_s = 0
    provider.answers = [(400, b"")]
    with caplog.at_level(logging.WARNING, "ottla.client"):
        assert obtained(one).token == token
        while "no newer token" not in caplog.text:
            time.sleep(0.01)
    assert kept.refresh_s > time.time(), "the provider is left alone for a while"
    with kept.lock:
        kept.token = obtained(one)._replace(expires_s=time.time() - 1)
    provider.answers = [(400, b"")]
    with pytest.raises(TokenUnavailable):
        obtained(one)


def test_a_file_holds_a_token_and_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    path = tmp_path / "token"
    monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"file://{path}")
    path.write_text(f"{provider.token('alice')}\n")
    one = source({URL: f"file://{path}", **QUICK})
    assert claims(obtained(one).token)["sub"] == "alice"
    path.write_text(provider.token("bob"))
    while claims(obtained(one).token)["sub"] != "bob":
        oauth._kept[one].refresh_s = 0
    path.unlink()
    oauth._kept.clear()
    with pytest.raises(BrokerUnreachable, match=r"no token to log in at here: .*No such file"):
        shown_token(security_of(SASL | {URL: f"file://{path}", **QUICK}), "here")


def test_a_function_gives_tokens_in_the_forms_of_confluents_client() -> None:
    said: list[str] = []

    def given(value: Any) -> oauth.Obtained:
        oauth._kept.clear()

        def call(config: str) -> Any:
            said.append(config)
            return value

        return obtained(source({"oauth_cb": call, "sasl.oauthbearer.config": "who=me"}))

    ends = time.time() + 60
    assert given("opaque") == ("opaque", None, {})
    assert given(("opaque", ends)) == ("opaque", ends, {})
    assert given(("opaque", ends, "alice", {"tenant": "blue"})) == ("opaque", ends, {"tenant": "blue"})
    assert said == ["who=me"] * 3
    for wrong in (None, 7, (None, ends), ("a", "soon")):
        with pytest.raises(TokenUnavailable, match="oauth_cb gave no token"):
            given(wrong)


def test_errors_say_whether_another_attempt_helps(provider: Provider) -> None:
    def away(config: str) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(BrokerUnreachable, match="no token to log in at here: oauth_cb failed: no route"):
        shown_token(security_of(SASL | {"oauth_cb": away}), "here")
    with pytest.raises(Refused, match="answered 401"):
        shown_token(security_of(SASL | at(provider, **{SECRET: "x"})), "here")
    assert shown_token(Security(), "here") is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, f"set {URL}"),
        ({URL: "https://a/b"}, "needs who the client is"),
        ({URL: "https://a/c", ID: "a", SECRET: "b"}, "is not allowed: add it to the environment"),
        ({URL: "file:///etc/passwd"}, "is not allowed"),
        ({URL: "https://a/b", ID: "a", SECRET: "b", "sasl.oauthbearer.method": "aws"}, "must be default or oidc"),
        ({URL: "https://a/b", "oauth_cb": print}, "give one of them"),
        ({"oauth_cb": "print"}, "must be a function"),
        ({"sasl.oauthbearer.config": "principal=admin"}, "unsecured tokens are not made"),
        ({"sasl.jaas.config": f'{JAAS} unsecuredLoginStringClaim_sub="admin";'}, "unsecured tokens are not made"),
        ({"sasl.jaas.config": f'{JAAS} clientid="a";'}, "clientid is no option"),
        ({"sasl.login.callback.handler.class": "org.me.Handler"}, "no class is loaded here"),
        ({"sasl.oauthbearer.jwt.retriever.class": "org.me.Retriever"}, "no class is loaded here"),
        ({URL: "https://a/b", ID: "a", SECRET: "b", "sasl.login.retry.backoff.ms": "soon"}, "must be a number"),
        ({URL: "https://a/b", ID: "a", SECRET: "b", "sasl.oauthbearer.header.urlencode": "1"}, "true or false"),
        ({URL: "https://a/b", ID: "a", SECRET: "b", "sasl.oauthbearer.extensions": "a"}, "NAME=VALUE"),
        ({"sasl.oauthbearer.assertion.claims": "x"}, "is not an option of this client"),
    ],
)  # fmt: skip
def test_options_that_will_not_do_are_refused_by_name(provider: Provider, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        security_of(SASL | given)


def test_secrets_are_not_printed_and_the_source_can_be_pickled(provider: Provider) -> None:
    security = security_of(SASL | at(provider, **{SECRET: "hunter2"}))
    assert "hunter2" not in f"{security!r} {security.tokens!r}"
    assert pickle.loads(pickle.dumps(security)) == security


def test_every_door_to_a_cluster_takes_these_options(provider: Provider) -> None:
    from ottla.cli.connect import client_settings
    from ottla.connect.tasks.clients import client_of
    from ottla.rows.kafka_settings import consumer_settings, producer_settings
    from ottla.streams.connection import connection

    said = SASL | at(provider)
    cluster = said | {"bootstrap.servers": "a:1"}
    doors = (
        client_settings(said), client_of(cluster)[1], connection("a:1", said).settings, consumer_settings(cluster),
        producer_settings(cluster),
    )  # fmt: skip
    assert [door.security.tokens for door in doors] == [source(at(provider))] * 5
