"""Logins by Kerberos against a real key distribution centre: kafka-python, our own clients, commands."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from tests.access.realm import REALM, Realm, is_possible
from tests.access.secured import Secured

from ottla.cli.main import main
from ottla.client import Admin, Producer
from ottla.client.aio import Producer as AsyncProducer
from ottla.client.errors import Refused
from ottla.config.security import listener_security
from ottla.server.outside_sides import outside_sides

LISTENER = "SASL_PLAINTEXT"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
pytestmark = pytest.mark.skipif(not is_possible(), reason="Kerberos is not here: make kerberos")


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    one = Realm(tmp_path_factory.mktemp("realm"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in one.environment.items():
            patch.setenv(name, value)
        yield one
    one.close()


@pytest.fixture(scope="module")
def secured(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    key = realm.principal("kafka/127.0.0.1")
    prefix = f"listener.name.{LISTENER.lower()}."
    one = Secured(
        tmp_path_factory.mktemp("kerberos"),
        {
            f"{prefix}sasl.enabled.mechanisms": "GSSAPI",
            f"{prefix}gssapi.sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="{key}" '
            f'principal="kafka/127.0.0.1@{REALM}";',
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": f"RULE:[2:$1-$2@$0](.*-robot@{REALM})s/@.*//,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice;User:loader-robot",
        },
    )
    with one.broker:
        yield one


@pytest.fixture(scope="module")
def alice(realm: Realm) -> dict[str, str]:
    return options(realm.principal("alice"), "alice")


def options(key: str, name: str) -> dict[str, str]:
    return {
        "security.protocol": LISTENER,
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": key,
        "sasl.kerberos.principal": f"{name}@{REALM}",
    }


def bootstrap(secured: Secured) -> str:
    host, port = secured.address(LISTENER)
    return f"{host}:{port}"


def test_our_clients_log_in_by_a_key_in_a_file(secured: Secured, alice: dict[str, str]) -> None:
    with Producer(bootstrap(secured), security=alice) as producer:
        assert producer.produce("by-key", "x").result().offset == 0

    async def go() -> int:
        async with AsyncProducer(bootstrap(secured), security=alice) as face:
            return (await (await face.produce("by-key-aio", "x"))).offset

    assert asyncio.run(go()) == 0


def test_kafka_python_and_a_command_log_in_by_the_tickets_of_kinit(
    secured: Secured, realm: Realm, alice: dict[str, str], tmp_path: Path
) -> None:
    environment = {**os.environ, **realm.environment}
    key, name = alice["sasl.kerberos.keytab"], alice["sasl.kerberos.principal"]
    subprocess.run(["kinit", "-k", "-t", key, name], env=environment, check=True, timeout=60)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap(secured), security_protocol=LISTENER, sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka", sasl_kerberos_domain_name="127.0.0.1",
    )  # fmt: skip
    assert producer.send("by-kafka-python", b"x").get(30).offset == 0
    producer.close()
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol={LISTENER}\nsasl.jaas.config={MODULE} useTicketCache=true;\n"
        "sasl.kerberos.service.name=kafka\n"
    )
    assert main(["topic", "create", "by-ticket", "-b", bootstrap(secured), "--command-config", str(file)]) == 0


def test_rights_go_by_the_name_that_the_rules_make(secured: Secured, realm: Realm) -> None:
    robot = options(realm.principal("loader/robot"), "loader/robot")
    with Producer(bootstrap(secured), security=robot) as producer:
        assert producer.produce("by-robot", "x").result().offset == 0
    mallory = options(realm.principal("mallory"), "mallory")
    with Admin(bootstrap(secured), security=mallory) as admin:
        assert "by-robot" not in admin.cluster.topics()
    nobody = options(realm.principal("loader/elsewhere"), "loader/elsewhere")
    quick: dict[str, Any] = {"bootstrap_timeout_ms": 500, "api_timeout_ms": 1000}
    with Admin(bootstrap(secured), security=nobody, **quick) as admin:
        assert "by-robot" not in admin.cluster.topics(), "DEFAULT makes it the user loader, who has no rights"


def test_a_client_without_a_ticket_says_so(secured: Secured, realm: Realm) -> None:
    foreign = options(realm.principal("bob"), "nobody")
    quick: dict[str, Any] = {"bootstrap_timeout_ms": 500, "api_timeout_ms": 1000}
    with Admin(bootstrap(secured), security=foreign, **quick) as admin, pytest.raises(Refused, match="no ticket"):
        admin.cluster.topics()
    other = options(realm.principal("carol"), "carol") | {"sasl.kerberos.service.name": "hdfs"}
    with Admin(bootstrap(secured), security=other, **quick) as admin, pytest.raises(Refused, match="no ticket"):
        admin.cluster.topics()


def test_bytes_that_are_no_ticket_are_refused(secured: Secured) -> None:
    for data in (b"", b"x", bytes(5000), b"\x60\x82" + b"\xff" * 200):
        with secured.connected(LISTENER) as raw:
            raw.handshake("GSSAPI")
            assert raw.token(data) == 58
            assert raw.is_closed()


def test_a_broker_without_its_key_does_not_start(realm: Realm, tmp_path: Path) -> None:
    key = realm.principal("dave")
    texts = {
        "listener.security.protocol.map": "OUT:SASL_PLAINTEXT",
        "listener.name.out.gssapi.sasl.jaas.config": f'{MODULE} keyTab="{key}" principal="kafka/other@{REALM}";',
    }
    security, problems = listener_security(texts, "OUT")
    assert problems == []
    with pytest.raises(ValueError, match=r"the key of kafka/other@OTTLA.TEST in .* cannot be used"):
        outside_sides(security)
