"""A broker from the folder that `ottla secure init` made: clients of others, our commands, rotation while it runs."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from tests.ports import free_port

from ottla.cli import doctor_security
from ottla.cli.main import main
from ottla.tls.authority import facts_of_der


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("secure")
    assert run(made, "init", "--user", "alice", "--port", str(free_port())) == 0
    (made / "readers").write_text("prometheus=scrapes\n")
    port = free_port()
    (made / "metrics-url").write_text(f"https://127.0.0.1:{port}/metrics")
    command = [sys.executable, "-m", "ottla", "start", "--http-port", str(port), "--registry-port", "0"]
    command += ["--set", "ottla.http.tls=true", "--set", "ottla.http.users=readers"]
    with subprocess.Popen(command, cwd=made, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert "ottla 0.1.0 ready: " in process.stdout.readline()
        (made / "registry-url").write_text(process.stdout.readline().partition(" ready: ")[2].split()[0])
        for user in ("alice", "bob"):
            assert (
                acl(made, "grant", user, "all", "--topic", "*") == acl(made, "grant", user, "read", "--group", "*") == 0
            )
        yield made
        process.terminate()


def run(folder: Path, *words: str) -> int:
    return main(["secure", *words, "--dir", str(folder)])


def acl(folder: Path, *words: str) -> int:
    return main(["acl", *words, "--command-config", str(folder / "users/admin/client.properties")])


def options(folder: Path, user: str) -> dict[str, str]:
    """The options of a user as librdkafka takes them."""
    lines = (folder / "users" / user / "librdkafka.properties").read_text().splitlines()
    return {"log_level": "0", **dict(line.split("=", 1) for line in lines)}


def logs_in(settings: dict[str, str]) -> bool:
    try:
        AdminClient(settings).list_topics(timeout=2)
    except KafkaException:
        return False
    return True


def issuer(folder: Path) -> str:
    """The issuer of the certificate that a new connection is shown."""
    host, port = options(folder, "admin")["bootstrap.servers"].split(":")
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    with (
        socket.create_connection((host, int(port)), timeout=20) as sock,
        context.wrap_socket(sock, server_hostname=host) as tls,
    ):
        shown = tls.getpeercert(binary_form=True)
    assert shown is not None
    return facts_of_der(shown).issuer


def test_librdkafka_writes_and_reads_by_its_file(folder: Path) -> None:
    producer = Producer(options(folder, "alice"))
    producer.produce("by-librdkafka", "x")
    assert producer.flush(30) == 0
    consumer = Consumer({**options(folder, "alice"), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["by-librdkafka"])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"x"
    consumer.close()


def test_kafka_python_writes_by_the_same_file(folder: Path) -> None:
    said = options(folder, "alice")
    producer = KafkaProducer(
        bootstrap_servers=said["bootstrap.servers"],
        security_protocol=said["security.protocol"],
        ssl_cafile=said["ssl.ca.location"],
        sasl_mechanism=said["sasl.mechanism"],
        sasl_plain_username=said["sasl.username"],
        sasl_plain_password=said["sasl.password"],
    )
    assert producer.send("by-kafka-python", b"x").get(30).offset == 0
    producer.close()


def test_our_commands_need_nothing_but_the_file_or_a_profile_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = str(folder / "users/admin/client.properties")
    assert main(["topic", "create", "by-command", "--command-config", client]) == 0
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["profile", "add", "secure", "--command-config", os.path.relpath(client), "--use"]) == 0
    capsys.readouterr()
    assert main(["topic", "list"]) == 0
    assert "by-command" in capsys.readouterr().out


def test_the_doctor_sees_the_certificate_and_says_what_expires_soon(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor = ["doctor", "--command-config", str(folder / "users/admin/client.properties")]
    assert main(doctor) == 0
    assert "TLSv1.3 with" in capsys.readouterr().out
    monkeypatch.setattr(doctor_security, "SOON_DAYS", 400)
    assert main(doctor) == 1
    assert "expires in 364 days" in capsys.readouterr().out


def test_metrics_are_read_by_a_password_over_tls(folder: Path) -> None:
    url, context = (folder / "metrics-url").read_text(), ssl.create_default_context(cafile=folder / "ca.pem")
    token = base64.b64encode(b"prometheus:scrapes").decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
    with urllib.request.urlopen(request, context=context, timeout=20) as answer:
        assert b"ottla_" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url, context=context, timeout=20)


def test_a_registry_beside_the_broker_logs_in_as_the_administrator(folder: Path) -> None:
    url = (folder / "registry-url").read_text()
    with urllib.request.urlopen(f"{url}/subjects", timeout=20) as answer:
        assert answer.read() == b"[]"


def test_a_user_may_do_nothing_that_was_not_granted(folder: Path) -> None:
    assert run(folder, "user", "add", "carol") == 0
    assert logs_in(options(folder, "carol"))
    client = str(folder / "users/carol/client.properties")
    assert main(["topic", "create", "of-carol", "--command-config", client]) != 0
    assert acl(folder, "grant", "carol", "create", "--topic", "of-carol") == 0
    assert main(["topic", "create", "of-carol", "--command-config", client]) == 0


def test_nobody_comes_in_without_a_password_or_encryption(folder: Path) -> None:
    said = options(folder, "alice")
    plain = {"bootstrap.servers": said["bootstrap.servers"], "log_level": "0", "socket.timeout.ms": "2000"}
    assert not logs_in(plain)
    assert not logs_in(said | {"sasl.password": "guessed"})
    assert logs_in(said)


def test_users_are_added_given_other_passwords_and_removed_while_it_runs(folder: Path) -> None:
    assert run(folder, "user", "add", "bob") == 0
    first = options(folder, "bob")
    assert logs_in(first)
    assert run(folder, "user", "rotate", "bob") == 0
    second = options(folder, "bob")
    assert logs_in(second)
    assert not logs_in(first)
    (folder / "users/bob/notes").write_text("mine")
    assert run(folder, "user", "remove", "bob") == 0
    assert not logs_in(second)
    assert [path.name for path in (folder / "users/bob").iterdir()] == ["notes"]


def test_the_authority_is_replaced_under_a_producer_that_never_fails(folder: Path) -> None:
    before, failed = issuer(folder), []
    producer = Producer(options(folder, "alice"))

    def produce() -> None:
        producer.produce("rotating", "x", on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(30) == 0

    produce()
    for step in ("begin", "use", "finish"):
        assert run(folder, "rotate-ca", "--step", step) == 0
        while step == "use" and issuer(folder) == before:
            produce()
        produce()
    assert failed == []
    assert issuer(folder) != before
    assert logs_in(options(folder, "alice"))
