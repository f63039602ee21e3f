"""Users with passwords as stories: the keys of SCRAM that the cluster keeps (KIP-554). Passwords are not sent."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import NamedTuple

from ottla.access.mechanisms.scram import LEAST_ITERATIONS, MOST_ITERATIONS, NUMBERS, salted_password
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.kernel.errors import ErrorCode
from ottla.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
_BY_NAME = {name: number for number, name in NUMBERS.items()}
_SALT_BYTES = 16


class User(NamedTuple):
    """A user, and the iterations of each mechanism by which it can log in."""

    name: str
    mechanisms: Mapping[str, int]


async def describe_users(plan: ClusterPlan) -> list[User]:
    """All users with keys for SCRAM, by name."""
    response = await plan.ask_any(
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        lambda _: DescribeUserScramCredentialsRequest(users=None),
    )
    if response.error_code:
        raise refused(response.error_code, "users", response.error_message)
    return [
        User(each.user, {NUMBERS[info.mechanism]: info.iterations for info in each.credential_infos})
        for each in sorted(response.results, key=lambda each: each.user)
        if each.error_code == ErrorCode.NONE
    ]


async def set_password(
    plan: ClusterPlan, user: str, password: str, mechanism: str = SHA_256, iterations: int = 8192
) -> None:
    """Let a user log in with a password, in place of an earlier one. ValueError for what no user can have."""
    number = _number(mechanism)
    if not user or not password:
        raise ValueError("a user and its password must not be empty")
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"iterations must be {LEAST_ITERATIONS} to {MOST_ITERATIONS}, not {iterations}")
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = salted_password(mechanism, password, salt, iterations)
    edit = ScramCredentialUpsertion(
        name=user, mechanism=number, iterations=iterations, salt=salt, salted_password=salted
    )
    await _alter(plan, AlterUserScramCredentialsRequest(upsertions=[edit]))


async def remove_password(plan: ClusterPlan, user: str, mechanism: str = SHA_256) -> None:
    """Take the keys of a mechanism from a user: it cannot log in by it again. Its open connections go on."""
    edit = ScramCredentialDeletion(name=user, mechanism=_number(mechanism))
    await _alter(plan, AlterUserScramCredentialsRequest(deletions=[edit]))


def _number(mechanism: str) -> int:
    if mechanism not in _BY_NAME:
        raise ValueError(f"there is no mechanism {mechanism} for users, only {' and '.join(_BY_NAME)}")
    return _BY_NAME[mechanism]


async def _alter(plan: ClusterPlan, request: AlterUserScramCredentialsRequest) -> None:
    response = await plan.ask_any(
        AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, lambda _: request
    )
    for each in response.results:
        if each.error_code:
            raise refused(each.error_code, each.user, each.error_message)
