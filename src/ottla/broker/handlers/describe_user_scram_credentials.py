"""DescribeUserScramCredentials (key 50, version 0): null and an empty list mean all users (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), keys in sorted(call.node.metadata.scram.items()):
        known.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=keys.iterations))
    asked = Counter(each.name for each in request.users or ()) or Counter(list(known))
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=[_result(user, times, known.get(user, [])) for user, times in asked.items()]
    )


def _result(user: str, times: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    if not infos:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(
        user=user, error_code=ErrorCode.NONE, error_message=None, credential_infos=infos
    )
