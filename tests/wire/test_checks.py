"""The table of rights: a row for every API, what Kafka checks, and steps that fit the messages."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from ottla.kernel.acls import Operation
from ottla.schema.message import schema_of
from ottla.wire.apis import APIS, Api
from ottla.wire.checks import Check, CheckScope, Each, Whole, checks


def _sibling() -> Path:
    """The folder `shared/data` beside the tree, or above it."""
    return next((up / "shared" / "data" for up in Path(__file__).parents if (up / "shared" / "data").exists()), Path())


MATRIX = Path(os.environ.get("OTTLA_SHARED_DATA") or _sibling()) / "acl-matrix.csv"
EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


@EVERY_API
def test_every_version_of_an_api_has_rows(api: Api) -> None:
    for version in range(api.served.first, api.served.last + 1):
        rows = [check for check in checks()[api.key] if check.is_in(version)]
        assert rows
        assert (CheckScope.NONE in {row.scope for row in rows}) == (api.key in (17, 18, 36, 71, 72))


def test_there_are_no_rows_of_unknown_apis() -> None:
    assert checks().keys() == APIS.keys()


@EVERY_API
def test_a_step_names_fields_that_the_messages_have(api: Api) -> None:
    for check in checks()[api.key]:
        if isinstance(check.step, Whole) and check.step.named:
            assert check.step.named in fields(api.request)
        if isinstance(check.step, Each):
            assert check.step.into in fields(api.response)
            items = fields(api.request)[check.step.items]
            assert (items.struct is None) == (not check.step.named)
            if items.struct is not None:
                assert check.step.named in fields(items.struct)
        if check.step is not None:
            assert check.code is not None
            assert isinstance(check.operation, Operation)


def fields(cls: type) -> dict:
    return {field.name: field for field in schema_of(cls).fields}


@pytest.mark.skipif(not MATRIX.exists(), reason="real input is not here: Apache Kafka's rights")
def test_the_table_says_what_apache_kafka_was_seen_to_check() -> None:
    with MATRIX.open() as file:
        theirs = [row for row in csv.DictReader(file) if int(row["key"]) in APIS]
    assert [as_row(key, check) for key, rows in checks().items() for check in rows] == [
        {name: row[name] for name in row if name != "seen"} for row in theirs
    ]


def as_row(key: int, check: Check) -> dict[str, str]:
    operation = check.operation
    if isinstance(operation, tuple):
        text = f"each of the {len(operation)} {'group' if len(operation) == 5 else 'topic'} operations"
    else:
        text = "-" if operation is None else operation.name
    return {
        "key": str(key),
        "api": APIS[key].name,
        "versions": check.versions,
        "resource type": "-" if check.resource is None else check.resource.name,
        "resource name": check.name,
        "operation": text,
        "when it is checked": check.when,
        "what is answered": check.answer,
        "scope": check.scope.value,
        "code": "" if check.code is None else str(int(check.code)),
    }
