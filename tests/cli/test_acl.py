"""`ottla acl` and `kafka-acls` against a broker that limits its users; Kafka's own tool reads what ours wrote."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.access.limited import Limited

from ottla.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited(["bob"])
    with one.broker:
        yield one


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("acl") / "root.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="root" password="root";\n'
    )
    return path


@pytest.fixture
def ottla(limited: Limited, properties: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    host, port = limited.broker._running().addresses["SASL_PLAINTEXT"]

    def run(*words: str) -> tuple[int, str, str]:
        kafkas = words[0].startswith("kafka-")
        server = "--bootstrap-server" if kafkas else "-b"
        code = main([*words, server, f"{host}:{port}", "--command-config", str(properties)])
        told = capsys.readouterr()
        return code, told.out, told.err

    yield run
    for user in ("bob", "ann", "*"):
        limited.take(user)


def test_a_right_is_granted_tested_listed_and_revoked(ottla: Run) -> None:
    assert ottla("acl", "test", "bob", "read", "--topic", "orders.eu")[:2] == (1, "read: no (no ACL allows it)\n")
    granted = "ALLOW User:bob from *: READ on topic prefix orders.\n"
    rule = ("bob", "read", "--topic", "orders.", "--prefixed")
    assert ottla("acl", "grant", *rule)[:2] == (0, granted)
    said = ottla("acl", "test", "bob", "read,describe,write", "--topic", "orders.eu")[1].splitlines()
    assert said == [
        "read: yes (ALLOW User:bob from *: READ on topic prefix orders.)",
        "describe: yes (ALLOW User:bob from *: READ on topic prefix orders.)",
        "write: no (no ACL allows it)",
    ]
    (listed,) = json.loads(ottla("acl", "list", "--topic", "orders.eu", "--format", "json")[1])
    assert (listed["principal"], listed["pattern"], listed["name"]) == ("User:bob", "PREFIXED", "orders.")
    assert ottla("acl", "list", "--topic", "other")[1] == ""
    assert ottla("acl", "revoke", *rule)[0] == 0
    assert ottla("acl", "revoke", *rule)[0] == 1


def test_a_denial_goes_first_and_a_super_user_needs_nothing(ottla: Run) -> None:
    ottla("acl", "grant", "bob", "all", "--group", "*")
    ottla("acl", "grant", "*", "delete", "--group", "g", "--deny", "--host", "10.0.0.1")
    assert ottla("acl", "test", "bob", "delete", "--group", "g")[0] == 0
    code, said, _ = ottla("acl", "test", "bob", "delete", "--group", "g", "--host", "10.0.0.1")
    assert (code, said) == (1, "delete: no (DENY User:* from 10.0.0.1: DELETE on group g)\n")
    assert ottla("acl", "test", "root", "delete", "--group", "g")[1] == "delete: yes (a super user)\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("grant", "bob", "wirte", "--topic", "t"), "did you mean write?"),
        (("grant", "bob", "write", "--group", "g"), "there is no such operation on a group"),
        (("grant", "bob", "read", "--topic", "t", "--host", "a.example.org"), "is not an address"),
        (("grant", "bob", "read"), "name one resource"),
        (("grant", "bob", "read", "--topic", "t", "--cluster"), "name one resource"),
        (("grant", "bob", "read", "--topic", "*", "--prefixed"), "beginning of a name"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(ottla: Run, words: tuple[str, ...], said: str) -> None:
    code, _, told = ottla("acl", *words)
    assert (code, said in told) == (2, True), told


def test_kafkas_flags_make_the_acls_of_producers_and_consumers(ottla: Run) -> None:
    producer = ("--allow-principal", "User:ann", "--producer", "--topic", "t", "--transactional-id", "x")
    code, said, _ = ottla("kafka-acls", "--add", *producer, "--idempotent")
    assert code == 0
    assert said.startswith(
        "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`: \n"
        " \t(principal=User:ann, host=*, operation=WRITE, permissionType=ALLOW)\n"
    )
    ottla("kafka-acls", "--add", "--allow-principal", "User:ann", "--consumer", "--topic", "t", "--group", "g")
    acls = json.loads(ottla("acl", "list", "--user", "ann", "--format", "json")[1])
    assert {(acl["resource"], acl["operation"]) for acl in acls} == {
        ("TOPIC", "WRITE"), ("TOPIC", "CREATE"), ("TOPIC", "DESCRIBE"), ("TOPIC", "READ"), ("GROUP", "READ"),
        ("TRANSACTIONAL_ID", "WRITE"), ("TRANSACTIONAL_ID", "DESCRIBE"), ("CLUSTER", "IDEMPOTENT_WRITE"),
    }  # fmt: skip


def test_kafkas_remove_asks_first_and_takes_what_is_named(ottla: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for operation in ("Read", "DescribeConfigs"):
        ottla("kafka-acls", "--add", "--allow-principal", "User:ann", "--operation", operation, "--topic", "t")
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert "(y/n)" in ottla("kafka-acls", "--remove", "--topic", "t")[1]
    one = ("--remove", "--force", "--topic", "t", "--allow-principal", "User:ann", "--operation", "Read")
    assert ottla("kafka-acls", *one)[0] == 0
    assert ottla("kafka-acls", "--list", "--topic", "tea", "--resource-pattern-type", "match")[1] == ""
    assert ottla("kafka-acls", "--list", "--topic", "t")[1] == (
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:\n"
        "\t(principal=User:ann, host=*, operation=DESCRIBE_CONFIGS, permissionType=ALLOW)\n\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--list", "--add"), "exactly one action"),
        (("--add", "--topic", "t"), "--allow-principal, --deny-principal"),
        (("--add", "--allow-principal", "ann", "--topic", "t"), "principalType:principalName but got ann"),
        (("--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Fly"), "TOPIC only supports"),
        (("--add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "match"), "not valid"),
        (("--remove", "--force"), "at least one resource"),
        (("--add", "--consumer", "--allow-principal", "User:a", "--topic", "t"), "a --topic and a --group"),
        (("--list", "--resource-pattern-type", "foo"), "Cannot parse argument 'foo'"),
    ],
)
def test_kafkas_refusals_are_given_for_the_same_mistakes(ottla: Run, words: tuple[str, ...], said: str) -> None:
    code, _, told = ottla("kafka-acls", *words)
    assert (code, said in told) == (1, True), told


@pytest.mark.kafka
def test_kafkas_own_tool_adds_and_lists_acls_here(
    ottla: Run, limited: Limited, properties: Path, kafka_libs: Path
) -> None:
    host, port = limited.broker._running().addresses["SASL_PLAINTEXT"]
    tool = ["java", "-cp", f"{kafka_libs}/*", "org.apache.kafka.tools.AclCommand"]
    java = [*tool, "--bootstrap-server", f"{host}:{port}", "--command-config", str(properties)]
    added = ["--add", "--allow-principal", "User:ann", "--operation", "All", "--topic", "t"]
    ran = subprocess.run([*java, *added], capture_output=True, text=True, check=True)
    here = ottla("kafka-acls", *added)[1]
    assert ran.stdout == here
    listed = subprocess.run([*java, "--list", "--topic", "t"], capture_output=True, text=True, check=True)
    assert listed.stdout == ottla("kafka-acls", "--list", "--topic", "t")[1]
