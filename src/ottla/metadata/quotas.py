"""The quotas of an entity as an entry."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.kernel.quotas import QuotaEntity
from ottla.metadata.entries import ClientQuotasSet, QuotaEntry


def client_quotas_set(entity: QuotaEntity, quotas: Mapping[str, float]) -> ClientQuotasSet:
    return ClientQuotasSet(
        user=entity.user,
        client_id=entity.client_id,
        ip=entity.ip,
        quotas=[QuotaEntry(key=key, value=quotas[key]) for key in sorted(quotas)],
    )
