"""AlterUserScramCredentials, key 51: set and remove users' keys for SCRAM (KIP-554). No password comes in clear."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bytes, Int8, Int16, Int32, String


@struct()
class ScramCredentialDeletion:
    name: str = field(String)
    mechanism: int = field(Int8)


@struct()
class ScramCredentialUpsertion:
    name: str = field(String)
    mechanism: int = field(Int8)
    iterations: int = field(Int32)
    salt: bytes = field(Bytes)
    salted_password: bytes = field(Bytes)


@message(versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field(Array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(Array(ScramCredentialUpsertion))


@struct()
class AlterUserScramCredentialsResult:
    user: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)


@message(versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = field(Int32)
    results: list[AlterUserScramCredentialsResult] = field(Array(AlterUserScramCredentialsResult))


def refusal(
    request: AlterUserScramCredentialsRequest, error: int, version: int
) -> AlterUserScramCredentialsResponse | None:
    users = {each.name for each in request.deletions} | {each.name for each in request.upsertions}
    results = [AlterUserScramCredentialsResult(user=user, error_code=error) for user in sorted(users)]
    return AlterUserScramCredentialsResponse(results=results) if results else None
