"""AlterClientQuotas, key 49: set and remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from ottla.schema.message import field, message, struct
from ottla.schema.types import Array, Bool, Float64, Int16, Int32, String


@struct(name="EntityData")
class AlteredQuotaEntity:
    entity_type: str = field(String)
    entity_name: str | None = field(String, nullable_since=0)


@struct(name="OpData")
class QuotaOperation:
    key: str = field(String)
    value: float = field(Float64)
    remove: bool = field(Bool)


@struct(name="EntryData")
class AlterClientQuotasEntry:
    entity: list[AlteredQuotaEntity] = field(Array(AlteredQuotaEntity))
    ops: list[QuotaOperation] = field(Array(QuotaOperation))


@message(versions=(0, 1), flexible_since=1)
class AlterClientQuotasRequest:
    entries: list[AlterClientQuotasEntry] = field(Array(AlterClientQuotasEntry))
    validate_only: bool = field(Bool)


@struct(name="EntryData")
class AlterClientQuotasResult:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable_since=0)
    entity: list[AlteredQuotaEntity] = field(Array(AlteredQuotaEntity))


@message(versions=(0, 1), flexible_since=1)
class AlterClientQuotasResponse:
    throttle_time_ms: int = field(Int32)
    entries: list[AlterClientQuotasResult] = field(Array(AlterClientQuotasResult))


def refusal(request: AlterClientQuotasRequest, error: int, version: int) -> AlterClientQuotasResponse | None:
    entries = [
        AlterClientQuotasResult(error_code=error, error_message=None, entity=each.entity) for each in request.entries
    ]
    return AlterClientQuotasResponse(entries=entries) if entries else None
