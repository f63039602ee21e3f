"""DescribeClientQuotas, key 48: the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Float64, Int8, Int16, Int32, String

EXACT, DEFAULT, ANY = 0, 1, 2


@struct(name="ComponentData")
class ClientQuotaComponent:
    entity_type: str = field(String)
    match_type: int = field(Int8)
    match: str | None = field(String, nullable_since=0)


@message(versions=(0, 1), flexible_since=1)
class DescribeClientQuotasRequest:
    components: list[ClientQuotaComponent] = field(Array(ClientQuotaComponent))
    strict: bool = field(Bool)


@struct(name="EntityData")
class DescribedQuotaEntity:
    entity_type: str = field(String)
    entity_name: str | None = field(String, nullable_since=0)


@struct(name="ValueData")
class DescribedQuota:
    key: str = field(String)
    value: float = field(Float64)


@struct(name="EntryData")
class DescribedClientQuotas:
    entity: list[DescribedQuotaEntity] = field(Array(DescribedQuotaEntity))
    values: list[DescribedQuota] = field(Array(DescribedQuota))


@message(versions=(0, 1), flexible_since=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    entries: list[DescribedClientQuotas] | None = field(Array(DescribedClientQuotas), nullable_since=0)


def refusal(request: DescribeClientQuotasRequest, error: int, version: int) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)
