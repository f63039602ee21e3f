"""Logins by tokens of an identity provider: unmodified clients, our own, and commands, against one broker."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
from tests.access.identified import LISTENER, Identified
from tests.access.identity import Provider, served

from ottla.cli.main import main
from ottla.client import Admin, Consumer, Producer
from ottla.client.aio import Producer as AsyncProducer
from ottla.client.errors import Refused

QUICK: dict[str, Any] = {"bootstrap_timeout_ms": 500, "api_timeout_ms": 1000}


@pytest.fixture(scope="module")
def identified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identified]:
    provider = Provider()
    with served(provider) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_ALLOWED_URLS", f"{url}/jwks,{url}/token")
        one = Identified(tmp_path_factory.mktemp("identified"), provider, url)
        with one.broker:
            yield one


def test_librdkafka_logs_in_with_a_token_of_its_callback(identified: Identified) -> None:
    settings = {**identified.client(LISTENER), "sasl.mechanism": "OAUTHBEARER"}
    token = identified.provider.token("alice")
    producer = confluent_kafka.Producer({**settings, "oauth_cb": lambda config: (token, time.time() + 300)})
    told: list[Any] = []
    producer.produce("by-callback", b"x", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(30) == 0
    assert told == [None]


def test_librdkafka_fetches_tokens_by_itself(identified: Identified) -> None:
    settings = identified.client(
        LISTENER,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_method="oidc",
        sasl_oauthbearer_client_id="rdkafka",
        sasl_oauthbearer_client_secret="secret",
        sasl_oauthbearer_token_endpoint_url=f"{identified.url}/token",
    )
    admin = confluent_kafka.admin.AdminClient(settings)
    admin.create_topics([confluent_kafka.admin.NewTopic("by-oidc", 1)])["by-oidc"].result(30)
    assert admin.list_topics("by-oidc", timeout=30).topics["by-oidc"].error is None


def test_kafka_python_logs_in_with_the_token_of_a_provider(identified: Identified) -> None:
    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return identified.provider.token("alice")

    producer = KafkaProducer(
        bootstrap_servers=identified.bootstrap,
        security_protocol=LISTENER,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    assert producer.send("by-kafka-python", b"x").get(30).offset == 0
    producer.close()


def test_our_client_fetches_a_token_for_all_its_connections(identified: Identified) -> None:
    security = identified.credentials()
    asked = len(identified.provider.asked)
    with Producer(identified.bootstrap, security=security) as producer:
        producer.produce("own", "x").result()
    with Consumer(identified.bootstrap, group_id="own", auto_offset_reset="earliest", security=security) as consumer:
        consumer.subscribe(["own"])
        while not (found := list(consumer.poll(timeout_ms=10_000))):
            pass
    assert [record.value for record in found] == [b"x"]
    assert identified.provider.asked[asked:] == [("/token", {"grant_type": ["client_credentials"], "scope": ["kafka"]})]


def test_the_asyncio_face_logs_in_too(identified: Identified) -> None:
    async def go() -> int:
        async with AsyncProducer(identified.bootstrap, security=identified.callback(name="alice")) as producer:
            future = await producer.produce("own-aio", "x")
            return (await future).offset

    assert asyncio.run(go()) == 0


def test_a_command_fetches_a_token_by_its_file(
    identified: Identified, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    options = identified.credentials()
    said = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    options["sasl.jaas.config"] = f'{said} clientId="ottla" clientSecret="secret" scope="kafka";'
    for name in [name for name in options if "client.credentials" in name]:
        del options[name]
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    at = ["-b", identified.bootstrap, "--command-config", str(file)]
    assert main(["topic", "create", "by-command", *at]) == 0
    file.write_text(file.read_text().replace('clientSecret="secret"', 'clientSecret="hunter2"'))
    assert main(["topic", "list", *at]) != 0
    out, err = capsys.readouterr()
    assert "/token answered 401" in err
    assert "hunter2" not in out + err


def test_a_token_that_is_not_taken_is_refused_and_rights_go_by_its_owner(identified: Identified) -> None:
    for claims in ({"aud": "shop"}, {"exp": time.time() - 100, "iat": time.time() - 200}):
        admin = Admin(identified.bootstrap, security=identified.callback(**claims), **QUICK)
        with admin, pytest.raises(Refused, match="refused the login by OAUTHBEARER"):
            admin.cluster.topics()
    with Admin(identified.bootstrap, security=identified.callback(name="mallory"), **QUICK) as admin:
        assert "own" not in admin.cluster.topics()


def test_a_session_lasts_as_long_as_its_token(identified: Identified) -> None:
    data = f"n,,\x01auth=Bearer {identified.provider.token('alice', exp=time.time() + 60)}\x01\x01".encode()
    with identified.connected(LISTENER) as raw:
        raw.handshake("OAUTHBEARER")
        answer = raw.ask(36, 1, struct.pack(">i", len(data)) + data)
        assert answer is not None
        (code,), (lifetime_ms,) = struct.unpack(">h", answer[:2]), struct.unpack(">q", answer[-8:])
        assert code == 0
        assert 0 < lifetime_ms <= 60_000


def test_a_token_that_is_not_taken_is_answered_in_two_steps_and_ends_the_connection(identified: Identified) -> None:
    data = f"n,,\x01auth=Bearer {identified.provider.token(aud='shop')}\x01\x01".encode()
    with identified.connected(LISTENER) as raw:
        raw.handshake("OAUTHBEARER")
        answer = raw.ask(36, 0, struct.pack(">i", len(data)) + data)
        assert answer is not None
        assert answer[:2] == b"\0\0"
        assert answer.endswith(b'{"status":"invalid_token"}')
        assert raw.token(b"\x01") == 58
        assert raw.is_closed()


def test_a_login_that_fails_by_a_fault_of_the_brokers_own_is_closed_with_a_line(
    identified: Identified, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("ottla.jobs.token_keys.judge", broken)
    with identified.connected(LISTENER) as raw:
        raw.handshake("OAUTHBEARER")
        assert raw.token(f"n,,\x01auth=Bearer {identified.provider.token()}\x01\x01".encode()) is None
    assert "closed by a fault of the broker's own" in caplog.text


@pytest.mark.parametrize("face", ["blocking", "producer", "asyncio"])
def test_our_clients_renew_their_sessions_over_the_same_connections(identified: Identified, face: str) -> None:
    def short(config: str) -> tuple[str, float]:
        ends = time.time() + 1.5
        return identified.provider.token("alice", exp=ends), ends

    security = {"security.protocol": LISTENER, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": short}
    server = identified.broker._running()
    gate, listener = server.node.gate, next(each for each in server._listeners if each.name == LISTENER)
    before: list[int] = []

    def renewed() -> bool:
        """True once two sessions were renewed since the first call; the connections are those of that time."""
        time.sleep(0.02)
        before.extend([] if before else [gate.logged_in, listener.accepted])
        assert listener.accepted == before[1]
        return gate.logged_in >= before[0] + 2

    async def asynchronous() -> None:
        async with AsyncProducer(identified.bootstrap, security=security) as producer:
            found = False
            while not found:
                futures = [await producer.produce("renewed", "x") for _ in range(3)]
                assert [(await future).topic for future in futures] == ["renewed"] * 3
                found = renewed()

    if face == "asyncio":
        asyncio.run(asynchronous())
    elif face == "producer":
        with Producer(identified.bootstrap, security=security) as producer:
            assert producer.produce("renewed", "x").result().topic == "renewed"
            while not renewed():
                assert [producer.produce("renewed", "x") for _ in range(3)][-1].result().topic == "renewed"
    else:
        with Admin(identified.bootstrap, security=security) as admin:
            assert admin.cluster.topics()
            while not renewed():
                assert admin.cluster.topics()
