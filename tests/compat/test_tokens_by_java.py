"""Apache Kafka's own tools with tokens of an identity provider, and with Kerberos' tickets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.access.identity import AUDIENCE, ISSUER, Provider, served
from tests.access.realm import REALM, Realm, is_possible
from tests.java_tools import java

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
