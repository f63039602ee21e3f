"""AlterUserScramCredentials (key 51, version 0): each user by itself (KIP-554). The keys follow from what comes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.access.mechanisms.scram import LEAST_ITERATIONS, MOST_ITERATIONS, NUMBERS, keys_of
from ottla.cluster.commands import EditScramKeys
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

Edit = ScramCredentialDeletion | ScramCredentialUpsertion


async def handle(call: Call, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    edits: list[Edit] = [*request.deletions, *request.upsertions]
    times = Counter(each.name for each in edits)
    response = AlterUserScramCredentialsResponse()
    for edit in {each.name: each for each in edits}.values():
        refused = _refusal(edit, times[edit.name])
        if refused is None:
            outcome = await call.node.follow.submit(_command(edit))
            refused = outcome if isinstance(outcome, ApiError) else None
        response.results.append(
            AlterUserScramCredentialsResult(
                user=edit.name,
                error_code=ErrorCode.NONE if refused is None else refused.code,
                error_message=None if refused is None else refused.message,
            )
        )
    return response


def _refusal(edit: Edit, times: int) -> ApiError | None:
    if times > 1:
        return ApiError(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    if not edit.name:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if edit.mechanism not in NUMBERS:
        return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(edit, ScramCredentialUpsertion):
        if edit.iterations > MOST_ITERATIONS:
            return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if edit.iterations < LEAST_ITERATIONS:
            return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if not edit.salt or not edit.salted_password:
            return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt and the salted password must not be empty")
    return None


def _command(edit: Edit) -> EditScramKeys:
    if isinstance(edit, ScramCredentialDeletion):
        return EditScramKeys(edit.name, edit.mechanism, None)
    keys = keys_of(NUMBERS[edit.mechanism], bytes(edit.salted_password), bytes(edit.salt), edit.iterations)
    return EditScramKeys(edit.name, edit.mechanism, keys)
