"""Every row of the table of rights, over the wire: refused without the right, served with those of the table alone."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.access.rights_requests import (
    GROUP,
    NAMES,
    REFUSED,
    TOPIC,
    TRANSACTION,
    acl,
    answer,
    batch,
    errors_in,
    everything,
    login,
    request_of,
)
from tests.access.secured import Raw

from ottla.kernel.acls import Operation, ResourceType
from ottla.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.testing import TestBroker
from ottla.wire.apis import APIS
from ottla.wire.checks import Check, Scope, asked, checks

ROWS = [
    (key, number, check)
    for key, rows in checks().items()
    for number, check in enumerate(rows)
    if check.code is not None and check.scope is not Scope.NONE
]
"""The rows whose refusal is an error code."""
BY_HAND = {(1, 0), (3, 4), (19, 2), (69, 1)}
"""Rows with tests of their own in test_rights.py: of followers, of topics to be made, of what a group reads."""
EVERY_ROW = pytest.mark.parametrize(
    ("key", "number", "check"),
    [row for row in ROWS if row[:2] not in BY_HAND],
    ids=[f"{APIS[key].name}-{number}" for key, number, _ in ROWS if (key, number) not in BY_HAND],
)
KINDS = {
    (10, 0): 0, (10, 1): 1, (10, 2): 2, (32, 0): 4, (32, 1): 2, (32, 2): 32, (33, 0): 4, (33, 1): 2, (33, 2): 32,
    (44, 0): 4, (44, 1): 2, (44, 2): 32, (44, 3): 8,
}  # fmt: skip
"""The type of the resource, or of the coordinator's key, that a row is about."""
ALLOWED_USERS = ("exact", "prefix", "wild", "root")


def without(key: int, number: int) -> str:
    return f"without-{key}-{number}"


def only(key: int) -> str:
    return f"only-{key}"


def acls() -> Iterator[AclCreation]:
    yield from everything("exact")
    for kind, name in NAMES.items():
        prefixed = kind is not ResourceType.CLUSTER
        yield acl("prefix", Operation.ALL, kind, name[:3] if prefixed else name, prefixed=prefixed)
        yield acl("wild", Operation.ALL, kind, name if kind is ResourceType.CLUSTER else "*")
        yield acl("denied", Operation.ALL, kind, name)
        yield acl("denied", Operation.ALL, kind, name, deny=True)
        yield acl("elsewhere", Operation.ALL, kind, name, host="10.9.8.7")
        yield acl("root", Operation.ALL, kind, name, deny=True)
    for key, number, check in ROWS:
        user = without(key, number)
        yield from everything(user)
        yield from (acl(user, operation, kind, NAMES[kind], deny=True) for operation, kind in lost(key, check))
    for key in APIS:
        yield from (acl(only(key), operation, kind, NAMES[kind]) for operation, kind in sorted(asked(key)))


def lost(key: int, check: Check) -> list[tuple[Operation, ResourceType]]:
    """The right of the row, and every right on the cluster that Kafka takes in its place."""
    assert isinstance(check.operation, Operation)
    assert check.resource is not None
    found = [(check.operation, check.resource)]
    for row in checks()[key]:
        if row.answer.startswith("see the next"):
            assert isinstance(row.operation, Operation)
            assert row.resource is not None
            found.append((row.operation, row.resource))
    return list(dict.fromkeys(found))


class Limited:
    """A broker that limits its users, whose passwords are their names."""

    def __init__(self) -> None:
        users = ["root", "nobody", "exact", "prefix", "wild", "denied", "elsewhere", "guest"]
        users += [without(key, number) for key, number, _ in ROWS] + [only(key) for key in APIS]
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required "
        jaas = plain + " ".join(f'user_{user}="{user}"' for user in users) + ";"
        self.broker = TestBroker(
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:root",
                "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 1,
            }
        )
        self.topic_id = b""

    @contextlib.contextmanager
    def user(self, name: str) -> Iterator[Raw]:
        with socket.create_connection(self.broker._running().addresses["SASL_PLAINTEXT"], timeout=20) as sock:
            raw = Raw(sock)
            login(raw, name)
            yield raw

    def grant(self, *some: AclCreation) -> None:
        with self.user("root") as raw:
            said = answer(raw, 30, 3, CreateAclsRequest(creations=list(some)))
            assert {each.error_code for each in said.results} == {0}

    def ask(self, user: str, key: int, version: int, request: Any) -> Any:
        with self.user(user) as raw:
            return answer(raw, key, version, request)

    def errors(self, user: str, key: int, version: int, kind: int | None, number: int = -1) -> set[int]:
        self.make_topic()
        request = request_of(key, version, self.topic_id, kind)
        if key == 0:
            request.topic_data[0].partition_data[0].records = batch(transactional=number == 0)
            request.transactional_id = TRANSACTION if number == 0 else None
        if key == 22:
            request.transactional_id = TRANSACTION if number in (0, 1) else None
            request.enable2_pc = number == 1
        said = self.ask(user, key, version, request)
        assert said is not None, "the connection was closed"
        return set(errors_in(said, version))

    def make_topic(self) -> None:
        """Some requests delete the topic."""
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        said = self.ask("root", 19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=20_000)).topics[0]
        if not said.error_code:
            self.topic_id = said.topic_id


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited()
    with one.broker:
        one.grant(*acls())
        one.make_topic()
        for kind, name in ((0, GROUP), (1, TRANSACTION)):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            assert one.ask("root", 10, 6, request).coordinators[0].error_code == 0
        yield one


@EVERY_ROW
def test_a_request_without_the_right_of_a_row_is_refused_as_the_row_says(
    limited: Limited, key: int, number: int, check: Check
) -> None:
    first, _, last = check.versions.partition("-")
    for version in {int(first), int(last or first)}:
        for user in (without(key, number), "nobody", "denied", "elsewhere"):
            errors = limited.errors(user, key, version, KINDS.get((key, number)), number)
            if key == 35 and version < 3:
                assert errors == set()
            elif user == without(key, number):
                assert int(check.code or 0) in errors, (version, user)
            else:
                assert errors & REFUSED, (version, user)
            assert errors <= REFUSED | {0, 55}, (version, user)


@pytest.mark.parametrize("key", [key for key in APIS if key not in (17, 36)], ids=lambda key: APIS[key].name)
def test_a_request_with_the_rights_of_its_rows_and_no_others_is_not_refused(limited: Limited, key: int) -> None:
    versions = APIS[key].served
    for version in {versions.first, versions.last}:
        for user in (only(key), *ALLOWED_USERS):
            for kind in sorted({KINDS[place] for place in KINDS if place[0] == key}) or [None]:
                if key == 10 and version == 0 and kind:
                    continue  # this version asks for groups only
                errors = limited.errors(user, key, version, kind)
                assert not errors & REFUSED, (version, user, kind)
