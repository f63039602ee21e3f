"""`ottla quota` and `kafka-configs` make, show and take away quotas; Kafka's tool shows users too."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ottla.cli.main import main
from ottla.testing import TestBroker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(kafka: TestBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*words: str) -> tuple[int, str, str]:
        server = "--bootstrap-server" if words[0].startswith("kafka-") else "-b"
        code = main([*words, server, kafka.bootstrap_servers])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_it


def test_a_quota_is_set_listed_and_unset(run: Run) -> None:
    entity = ("--user", "quota-user", "--default-client-id")
    said = "user quota-user, default client-id: producer_byte_rate 1024\n"
    assert run("quota", "set", "producer_byte_rate=1024", *entity)[:2] == (0, said)
    code, out, _ = run("quota", "list", "--user", "quota-user", "--format", "json")
    named = {"user": "quota-user", "client-id": None}
    assert (code, json.loads(out)) == (0, [{"entity": named, "quotas": {"producer_byte_rate": 1024.0}}])
    assert "user quota-user, default client-id" in run("quota", "list")[1]
    assert run("quota", "unset", "producer_byte_rate", *entity)[0] == 0
    assert run("quota", "list", "--user", "quota-user")[1] == ""
    code, _, err = run("quota", "unset", "producer_byte_rate", *entity)
    assert code == 1
    assert "has no producer_byte_rate" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "producer_byte_rat=1", "--user", "x"), "did you mean producer_byte_rate?"),
        (("set", "producer_byte_rate=0", "--user", "x"), "write a number above 0"),
        (("set", "producer_byte_rate", "--user", "x"), "write QUOTA=VALUE"),
        (("set", "producer_byte_rate=1"), "name the clients"),
        (("unset", "producer_byte_rate", "--user", "x", "--default-user"), "exclude each other"),
        (("set", "producer_byte_rate=1", "producer_byte_rate=2", "--user", "x"), "given twice"),
    ],
)
def test_what_cannot_be_meant_is_misuse(run: Run, words: tuple[str, ...], said: str) -> None:
    code, _, err = run("quota", *words)
    assert code == 2
    assert said in err


def test_kafka_configs_changes_and_describes_quotas_and_users(run: Run) -> None:
    alter = ("kafka-configs", "--alter")
    both = ("--entity-type", "users", "--entity-name", "kc", "--entity-type", "clients", "--entity-name", "app")
    user = ("--entity-type", "users", "--entity-name", "kc")
    done = (0, "Completed updating config for user kc.\n")
    assert run(*alter, *both, "--add-config", "producer_byte_rate=2048,consumer_byte_rate=10000000")[:2] == done
    assert run(*alter, *user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")[:2] == done
    assert run(*alter, *user, "--add-config", "consumer_byte_rate=100")[:2] == done
    assert run("kafka-configs", "--describe", *both)[:2] == (
        0,
        "Quota configs for user-principal 'kc', client-id 'app' are "
        "consumer_byte_rate=1.0E7, producer_byte_rate=2048.0\n",
    )
    assert run("kafka-configs", "--describe", *user)[:2] == (
        0,
        "Quota configs for user-principal 'kc' are consumer_byte_rate=100.0\n"
        "SCRAM credential configs for user-principal 'kc' are SCRAM-SHA-256=iterations=4096\n",
    )
    assert run(*alter, *user, "--delete-config", "consumer_byte_rate")[:2] == done
    assert run(*alter, *user, "--delete-config", "SCRAM-SHA-256")[:2] == done
    assert run(*alter, *both, "--delete-config", "consumer_byte_rate,producer_byte_rate")[:2] == done
    assert run("kafka-configs", "--describe", *user)[:2] == (0, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--user", "kc", "--add-config", "producer_byte=1"), "Unexpected: producer_byte"),
        (("--user", "kc", "--add-config", "producer_byte_rate=x"), "Cannot parse"),
        (("--user", "kc", "--add-config", "SCRAM-SHA-256=[password=x],producer_byte_rate=1"), "simultaneously"),
        (("--user", "kc", "--ip", "127.0.0.1", "--add-config", "producer_byte_rate=1"), "specified together"),
        (("--entity-type", "users", "--add-config", "producer_byte_rate=1"), "needs a name"),
        (("--user-defaults", "--add-config", "SCRAM-SHA-256=[password=x]"), "not allowed"),
    ],
)
def test_kafka_configs_refuses_what_cannot_be_meant(run: Run, words: tuple[str, ...], said: str) -> None:
    code, _, err = run("kafka-configs", "--alter", *words)
    assert code == 1
    assert said in err


def test_kafka_configs_refuses_to_delete_a_quota_that_is_not_there(run: Run) -> None:
    code, _, err = run("kafka-configs", "--alter", "--user", "kc", "--delete-config", "producer_byte_rate")
    assert code == 1
    assert "Invalid config(s): producer_byte_rate" in err


def test_kafka_configs_sets_a_quota_of_time(run: Run) -> None:
    code, _, _ = run("kafka-configs", "--alter", "--user", "kc", "--add-config", "request_percentage=50")
    assert code == 0
    assert "request_percentage=50.0" in run("kafka-configs", "--describe", "--user", "kc")[1]
    assert run("kafka-configs", "--alter", "--user", "kc", "--delete-config", "request_percentage")[0] == 0
