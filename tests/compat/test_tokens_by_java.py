"""Apache Kafka's own tools with tokens of an identity provider, and with Kerberos' tickets."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from joserfc.jwk import ECKey
from tests.access.identity import AUDIENCE, ISSUER, Provider, served
from tests.access.realm import REALM, Realm, is_possible
from tests.java_tools import java

from ottla.client import Admin
from ottla.client.security import security_of
from ottla.testing import TestBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def test_kafkas_tools_log_in_by_client_credentials_and_renew_their_sessions(
    kafka_libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Provider()
    provider.lives_s = 6
    with served(provider) as url:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"{url}/jwks")
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}/token")
        broker = TestBroker(
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": f"{url}/jwks",
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
            }
        )
        file = tmp_path / "client.properties"
        options = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
            "sasl.jaas.config": f'{MODULE} clientId="java" clientSecret="secret" scope="kafka";',
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        with broker:
            at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(file))
            java(kafka_libs, "TopicCommand", "--create", "--topic", "t", *at)
            java(kafka_libs, "ConsoleProducer", *at, "--topic", "t", feed="by Java\n")
            server = broker._running()
            gate, [listener] = server.node.gate, server._listeners
            logins, connections = gate.logged_in, listener.accepted
            read = ("--topic", "t", "--from-beginning", "--timeout-ms", "12000")
            assert "by Java" in java(kafka_libs, "consumer.ConsoleConsumer", *at, *read)
            assert gate.refused == 0
            assert gate.logged_in - logins > listener.accepted - connections, "sessions were renewed, not begun anew"


def test_kafkas_client_and_ours_send_assertions_of_the_same_form(
    kafka_libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, key = Provider(), ECKey.generate_key("P-256")
    provider.clients["orders"] = key
    file, pem = tmp_path / "client.properties", tmp_path / "key.pem"
    pem.write_bytes(key.as_pem(private=True))
    with served(provider) as url:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"{url}/jwks,{url}/token,file://{pem}")
        kafkas = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{kafkas}.urls={url}/token {kafkas}.files={pem}")
        options = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.jwt.retriever.class": (
                "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
            ),
            "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.assertion.algorithm": "ES256",
            "sasl.oauthbearer.assertion.private.key.file": str(pem),
            "sasl.oauthbearer.assertion.claim.iss": "orders",
            "sasl.oauthbearer.assertion.claim.sub": "orders",
            "sasl.oauthbearer.assertion.claim.aud": "kafka",
            "sasl.oauthbearer.assertion.claim.jti.include": "true",
        }
        module = {
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.jaas.config": f"{MODULE};",
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in (options | module).items()))
        with TestBroker(
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": f"{url}/jwks",
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
            }
        ) as broker:
            servers = broker.bootstrap_servers
            java(kafka_libs, "TopicCommand", "--create", "--topic", "t", "--bootstrap-server", servers,
                 "--command-config", str(file))  # fmt: skip
            with Admin(servers, security=security_of(options)) as ours:
                assert "t" in ours.list_topics()
    theirs, own = (form for path, form in provider.asked if path == "/token")
    assert theirs.keys() == own.keys() and theirs["grant_type"] == own["grant_type"]
    found = [[json.loads(base64.urlsafe_b64decode(part + "==")) for part in form["assertion"][0].split(".")[:2]]
             for form in (theirs, own)]  # fmt: skip
    (their_header, their_claims), (header, claims) = found
    assert their_header == header
    times = {"iat", "exp", "nbf", "jti"}
    assert their_claims.keys() == claims.keys() and times < claims.keys()
    assert {name: claims[name] for name in claims.keys() - times} == {
        name: their_claims[name] for name in claims.keys() - times
    }
    for spans in ("exp", "nbf"):
        assert their_claims[spans] - their_claims["iat"] == claims[spans] - claims["iat"]


@pytest.mark.skipif(not is_possible(), reason="Kerberos is not here: make kerberos")
def test_kafkas_tools_log_in_by_kerberos(kafka_libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    realm, module = Realm(tmp_path), "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    conf = realm.environment["KRB5_CONFIG"]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={conf}")
    own, key = realm.principal("kafka/localhost"), realm.principal("alice")
    broker = TestBroker(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
                f'{module} storeKey=true keyTab="{own}" principal="kafka/localhost@{REALM}";'
            ),
        }
    )
    file = tmp_path / "client.properties"
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{module} storeKey=true keyTab="{key}" principal="alice@{REALM}";',
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    try:
        with broker:
            at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(file))
            java(kafka_libs, "TopicCommand", "--create", "--topic", "t", *at)
            assert "t" in java(kafka_libs, "TopicCommand", "--list", *at).split()
            assert broker._running().node.gate.refused == 0
    finally:
        realm.close()
