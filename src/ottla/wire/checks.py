"""The one table of rights: for each API what it asks for, when, and what is answered where the right is missing.

A row with a `step` is asked by the dispatch before the handler runs (broker/requests/authorised.py). The other rows
are asked by the handler, beside its refusal. docs/reference/rights.md and the tests are made of this table.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import NamedTuple

from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode


class CheckScope(Enum):
    """The part of an answer that a missing right changes."""

    REQUEST = "request"
    ITEM = "item"
    FILTER = "filter"
    """The item is left out, without an error."""
    FIELD = "field"
    NONE = "none"
    """Everybody who has logged in may ask."""


class Whole(NamedTuple):
    """Ask once for the request, and refuse it whole.

    `named` is the field with the resource's name; of the cluster it is empty. `unless`: nothing is asked of those who
    have this right on the cluster.
    """

    named: str = ""
    unless: Operation | None = None


class Each(NamedTuple):
    """Ask for each item of a list, take the refused ones out of the request, and put them into a list of the answer.

    `named` is the field of an item with the resource's name, or with a topic's id; empty where the items are names.
    Of topics asked for by id, unknown ones are left to the handler.
    """

    items: str
    named: str
    into: str
    unless: Operation | None = None
    types: tuple[int, ...] = ()
    """The values of an item's `resource_type` that the row is about; empty: every item."""
    repeated_first: bool = False
    """True if the handler refuses items that are named twice, whatever the rights."""
    invalid_first: bool = False
    """True if the handler refuses names that no topic can have, whatever the rights."""


class Check(NamedTuple):
    """One row: versions of an API, the resource and the operation that they take, when, and the answer else."""

    versions: str
    resource: ResourceKind | None
    name: str
    operation: Operation | tuple[Operation, ...] | None
    scope: CheckScope
    code: ErrorCode | None
    when: str
    answer: str
    step: Whole | Each | None = None

    def is_in(self, version: int) -> bool:
        first, _, last = self.versions.partition("-")
        return int(first) <= version <= int(last or first)


@cache
def checks() -> dict[int, tuple[Check, ...]]:
    """All rows by API key."""
    from ottla.wire.checks_of_admins import OF_ADMINS
    from ottla.wire.checks_of_clients import OF_CLIENTS

    return dict(sorted((OF_CLIENTS | OF_ADMINS).items()))


@cache
def steps(key: int, version: int) -> tuple[Check, ...]:
    """The rows of a request that are asked before its handler runs."""
    return tuple(check for check in checks()[key] if check.step is not None and check.is_in(version))


@cache
def asked(key: int) -> frozenset[tuple[Operation, ResourceKind]]:
    """The rights that an API may ask for."""
    found: set[tuple[Operation, ResourceKind]] = set()
    for check in checks()[key]:
        operations = check.operation if isinstance(check.operation, tuple) else (check.operation,)
        found |= {(each, check.resource) for each in operations if each is not None and check.resource is not None}
        if check.step is not None and check.step.unless is not None:
            found.add((check.step.unless, ResourceKind.CLUSTER))
    return frozenset(found)
