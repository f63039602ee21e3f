"""DescribeClientQuotas (key 48, versions 0 and 1): the entities that all components of a filter take (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.requests.quota_requests import kinds_refused
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.quotas import in_order
from ottla.messages.describe_client_quotas import (
    ANY,
    DEFAULT,
    EXACT,
    ClientQuotaComponent,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedClientQuotas,
    DescribedQuota,
    DescribedQuotaEntity,
)

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    refused = _refusal(request.components)
    if refused is not None:
        return DescribeClientQuotasResponse(error_code=refused.code, error_message=refused.message, entries=None)
    quotas = call.node.metadata.quotas
    found = [entity for entity in sorted(quotas, key=in_order) if _takes(request, entity.parts)]
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            DescribedClientQuotas(
                entity=[
                    DescribedQuotaEntity(entity_type=kind, entity_name=name or None)
                    for kind, name in entity.parts.items()
                ],
                values=[DescribedQuota(key=key, value=value) for key, value in sorted(quotas[entity].items())],
            )
            for entity in found
        ],
    )


def _refusal(components: list[ClientQuotaComponent]) -> ApiError | None:
    if (refused := kinds_refused([each.entity_type for each in components], ErrorCode.UNSUPPORTED_VERSION)) is not None:
        return refused
    for each in components:
        if each.match_type not in (EXACT, DEFAULT, ANY):
            return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}: 0, 1 and 2 are known.")
        if each.match_type == EXACT and not each.match:
            return ApiError(ErrorCode.INVALID_REQUEST, f"An exact match of {each.entity_type} needs a name.")
        if each.match_type != EXACT and each.match is not None:
            return ApiError(ErrorCode.INVALID_REQUEST, f"Only an exact match takes a name, as {each.match!r}.")
    return None


def _takes(request: DescribeClientQuotasRequest, parts: Mapping[str, str]) -> bool:
    if request.strict and len(parts) != len(request.components):
        return False
    return all(_matches(each, parts.get(each.entity_type)) for each in request.components)


def _matches(component: ClientQuotaComponent, name: str | None) -> bool:
    if name is None:
        return False
    return component.match_type == ANY or name == (component.match or "")
