"""Our own clients and commands over TLS and SASL."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest
from tests.access.secured import Secured

from ottla.cli.main import main
from ottla.client import Admin, Consumer, Producer
from ottla.client.aio import Consumer as AsyncConsumer
from ottla.client.aio import Producer as AsyncProducer
from ottla.client.errors import BrokerUnreachable, Refused
from ottla.client.model import ClientSettings
from ottla.client.security import security_of

PLAIN_SSL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    one = Secured(tmp_path_factory.mktemp("own"))
    with one.broker:
        yield one


def options(secured: Secured, user: str = "bob", password: str = "b") -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(secured.trusted),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";',
    }


def bootstrap(secured: Secured, listener: str = "SASL_SSL") -> str:
    host, port = secured.address(listener)
    return f"{host}:{port}"


def test_records_go_in_and_out_over_tls_after_a_login(secured: Secured) -> None:
    security = options(secured)
    values = [f"{number} {'x' * 900}" for number in range(3000)]
    with Producer(bootstrap(secured), security=security) as producer:
        for value in values:
            producer.produce("own", value)
    with Consumer(bootstrap(secured), group_id="own", auto_offset_reset="earliest", security=security) as consumer:
        consumer.subscribe(["own"])
        found: list[str] = []
        while len(found) < len(values):
            found += [record.value.decode() for record in consumer.poll(timeout_ms=10_000)]
    assert found == values


def test_the_asyncio_face_does_the_same(secured: Secured) -> None:
    security = options(secured)

    async def go() -> list[bytes]:
        async with AsyncProducer(bootstrap(secured), security=security) as producer:
            for number in range(500):
                await producer.produce("own-aio", str(number))
        found: list[bytes] = []
        async with AsyncConsumer(
            bootstrap(secured), group_id="a", auto_offset_reset="earliest", security=security
        ) as it:
            it.subscribe(["own-aio"])
            while len(found) < 500:
                found += [record.value for record in await it.poll(timeout_ms=10_000)]
        return found

    assert asyncio.run(go()) == [str(number).encode() for number in range(500)]


def test_a_certificate_of_ones_own_is_shown(secured: Secured) -> None:
    key = secured.authority.sign("alice").file(secured.directory, "own-alice.pem")
    security = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(secured.trusted),
        "ssl.keystore.location": key,
    }
    with Producer(bootstrap(secured, "SSL"), security=security) as producer:
        assert producer.produce("own-certificate", "x").result().offset == 0


def test_a_wrong_password_is_told_at_once_and_an_unknown_authority_too(secured: Secured) -> None:
    quick = {"bootstrap_timeout_ms": 500, "api_timeout_ms": 1000}
    wrong = Admin(bootstrap(secured), security=options(secured, password="x"), **quick)
    with wrong, pytest.raises(Refused, match="refused the login by PLAIN"):
        wrong.cluster.topics()
    stranger = secured.directory / "stranger.pem"
    stranger.write_text(secured.stranger.certificate_pem)
    security = options(secured) | {"ssl.truststore.location": str(stranger)}
    strange = Admin(bootstrap(secured), security=security, **quick)
    with strange, pytest.raises(BrokerUnreachable, match="certificate verify failed"):
        strange.cluster.topics()


def test_a_command_logs_in_by_its_file(secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in options(secured).items()))
    at = ["-b", bootstrap(secured), "--command-config", str(file)]
    assert main(["topic", "create", "by-command", *at]) == 0
    assert main(["topic", "list", *at]) == 0
    assert "by-command" in capsys.readouterr().out
    file.write_text(file.read_text().replace('password="b"', 'password="x"'))
    assert main(["topic", "list", *at]) != 0
    assert "refused the login by PLAIN" in capsys.readouterr().err


def test_a_user_is_made_listed_used_and_removed(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    at = ["-b", bootstrap(secured, "PLAINTEXT")]
    assert main(["user", "add", "frank", "--password-file", str(tmp_path / "password"), *at]) == 0
    assert main(["user", "list", *at]) == 0
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines()[1:]] == [["USER", "MECHANISMS"], ["frank", "SCRAM-SHA-256"]]
    assert "hunter2" not in out
    security = options(secured) | {
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "frank",
        "sasl.password": "hunter2",
    }
    del security["sasl.jaas.config"]
    with Admin(bootstrap(secured), security=security) as admin:
        assert [user.name for user in admin.describe_users()] == ["frank"]
    assert main(["user", "remove", "frank", *at]) == 0
    assert main(["user", "remove", "frank", *at]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert main(["user", "add", "frank", "--mechanism", "MD5", "--password-file", str(tmp_path / "password"), *at]) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "X"}, "sasl.mechanism must be one of PLAIN"),
        (PLAIN_SSL, "sasl.username and sasl.password"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "MD5"}, "not MD5"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "set sasl.oauthbearer.token.endpoint.url"),
        (PLAIN_SSL | {"oauth_cb": print}, "oauth_cb is for sasl.mechanism=OAUTHBEARER"),
        ({"ssl.truststore.lokation": "x"}, "did you mean ssl.truststore.location"),
        ({"sasl.login.class": "x.Y"}, "is not an option of this client"),
        (PLAIN_SSL | {"sasl.jaas.config": "a required b"}, "semicolon"),
        (PLAIN_SSL | {"sasl.jaas.config": "x.ScramLoginModule required;"}, "another login module"),
    ],
)
def test_options_that_will_not_do_are_refused_by_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        security_of(given)


def test_secrets_are_not_printed_and_settings_can_be_pickled(secured: Secured) -> None:
    security = security_of(options(secured, password="hunter2"))
    settings = ClientSettings(security=security)
    assert "hunter2" not in f"{settings!r} {security!r} {security.tls!r}"
    assert pickle.loads(pickle.dumps(settings)).security == security
