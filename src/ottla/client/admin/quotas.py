"""Quotas of clients as stories: describe and edit them (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.kernel.quotas import DEFAULT, QuotaEntity
from ottla.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    QuotaOperation,
)
from ottla.messages.describe_client_quotas import (
    ClientQuotaComponent,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2


class QuotaFilter(NamedTuple):
    """Entities with this part: `kind` is user, client-id or ip. `name` is None for any, empty for the default."""

    kind: str
    name: str | None = None


async def describe_quotas(
    plan: ClusterPlan, filters: Sequence[QuotaFilter] = (), *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of the entities that all filters take; with `strict` of those that have no other part."""
    components = [
        ClientQuotaComponent(
            entity_type=kind,
            match_type=_ANY if name is None else _EXACT if name else _DEFAULT,
            match=name or None,
        )
        for kind, name in filters
    ]
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    response = await plan.ask_any(DescribeClientQuotasRequest, DescribeClientQuotasResponse, lambda _: request)
    if response.error_code:
        raise refused(response.error_code, "quotas", response.error_message)
    found = {}
    for entry in response.entries or ():
        names = {each.entity_type: each.entity_name or DEFAULT for each in entry.entity}
        entity = QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))
        found[entity] = {each.key: each.value for each in entry.values}
    return found


async def alter_quotas(plan: ClusterPlan, entity: QuotaEntity, edits: Mapping[str, float | None]) -> None:
    """Set quotas of an entity, by Kafka's names; None takes one away."""
    entry = AlterClientQuotasEntry(
        entity=[AlteredQuotaEntity(entity_type=kind, entity_name=name or None) for kind, name in entity.parts.items()],
        ops=[QuotaOperation(key=key, value=value or 0.0, remove=value is None) for key, value in edits.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    response = await plan.ask_any(AlterClientQuotasRequest, AlterClientQuotasResponse, lambda _: request)
    for each in response.entries:
        if each.error_code:
            raise refused(each.error_code, f"quotas of {entity}", each.error_message)
