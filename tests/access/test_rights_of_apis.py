"""Every row of the table of rights, over the wire: refused without the right, served with those of the table alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.access.limited import Limited
from tests.access.rights_requests import (
    NAMES,
    REFUSED,
    TRANSACTION,
    acl,
    batch,
    errors_in,
    everything,
    request_of,
)

from ottla.kernel.acls import Operation, ResourceKind
from ottla.messages.create_acls import AclCreation
from ottla.wire.apis import APIS
from ottla.wire.checks import Check, CheckScope, asked, checks

ROWS = [
    (key, number, check)
    for key, rows in checks().items()
    for number, check in enumerate(rows)
    if check.code is not None and check.scope is not CheckScope.NONE and check.resource in NAMES
]
"""The rows whose refusal is an error code; those of delegation tokens are in test_delegation_tokens.py."""
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
        prefixed = kind is not ResourceKind.CLUSTER
        yield acl("prefix", Operation.ALL, kind, name[:3] if prefixed else name, prefixed=prefixed)
        yield acl("wild", Operation.ALL, kind, name if kind is ResourceKind.CLUSTER else "*")
        yield acl("denied", Operation.ALL, kind, name)
        yield acl("denied", Operation.ALL, kind, name, deny=True)
        yield acl("elsewhere", Operation.ALL, kind, name, host="10.9.8.7")
        yield acl("root", Operation.ALL, kind, name, deny=True)
    for key, number, check in ROWS:
        user = without(key, number)
        yield from everything(user)
        yield from (acl(user, operation, kind, NAMES[kind], deny=True) for operation, kind in lost(key, check))
    for key in APIS:
        yield from (
            acl(only(key), operation, kind, NAMES[kind]) for operation, kind in sorted(asked(key)) if kind in NAMES
        )


def lost(key: int, check: Check) -> list[tuple[Operation, ResourceKind]]:
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


def errors_of(limited: Limited, user: str, key: int, version: int, kind: int | None, number: int = -1) -> set[int]:
    limited.make_topic()
    request = request_of(key, version, limited.topic_id, kind)
    if key == 0:
        request.topic_data[0].partition_data[0].records = batch(transactional=number == 0)
        request.transactional_id = TRANSACTION if number == 0 else None
    if key == 22:
        request.transactional_id = TRANSACTION if number in (0, 1) else None
        request.enable2_pc = number == 1
    said = limited.ask(user, key, version, request)
    assert said is not None, "the connection was closed"
    return set(errors_in(said, version))


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    users = ["nobody", "denied", "elsewhere", *ALLOWED_USERS, *(only(key) for key in APIS)]
    one = Limited([*users, *(without(key, number) for key, number, _ in ROWS)])
    with one.broker:
        one.grant(*acls())
        one.make_topic()
        one.make_coordinators()
        yield one


@EVERY_ROW
def test_a_request_without_the_right_of_a_row_is_refused_as_the_row_says(
    limited: Limited, key: int, number: int, check: Check
) -> None:
    first, _, last = check.versions.partition("-")
    for version in {int(first), int(last or first)}:
        for user in (without(key, number), "nobody", "denied", "elsewhere"):
            errors = errors_of(limited, user, key, version, KINDS.get((key, number)), number)
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
                errors = errors_of(limited, user, key, version, kind)
                assert not errors & REFUSED, (version, user, kind)
