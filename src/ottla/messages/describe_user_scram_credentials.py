"""DescribeUserScramCredentials, key 50: which users have keys for SCRAM, and by how many iterations (KIP-554)."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Int8, Int16, Int32, String


@struct()
class UserName:
    name: str = field(String)


@message(versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field(Array(UserName), nullable_since=0)


@struct()
class CredentialInfo:
    mechanism: int = field(Int8)
    iterations: int = field(Int32)


@struct()
class DescribeUserScramCredentialsResult:
    user: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    credential_infos: list[CredentialInfo] = field(Array(CredentialInfo))


@message(versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    results: list[DescribeUserScramCredentialsResult] = field(Array(DescribeUserScramCredentialsResult))


def refusal(
    request: DescribeUserScramCredentialsRequest, error: int, version: int
) -> DescribeUserScramCredentialsResponse:
    """At the top, and as Kafka does once more without a name for each user that was asked for."""
    results = [DescribeUserScramCredentialsResult(user="", error_code=error) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=error, results=results)
