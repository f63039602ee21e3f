"""Decides about clients' quotas: what an edit leaves of those of an entity."""

from __future__ import annotations

from ottla.cluster.brokers import QUOTAS
from ottla.cluster.commands import EditQuotas
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata import entries as log
from ottla.metadata.quotas import client_quotas_set
from ottla.metadata.state import Metadata


def edit(command: EditQuotas, state: Metadata) -> list[log.Body] | ApiError:
    """Set and remove quotas of one entity; to remove one that is not there is a success, as in Kafka."""
    if state.metadata_version() < QUOTAS:
        return ApiError(
            ErrorCode.UNSUPPORTED_VERSION, "A broker of an older release is in the cluster: it knows no quotas."
        )
    kept = state.quotas.get(command.entity, {})
    edited = dict(kept)
    for key, value in command.edits:
        if value is None:
            edited.pop(key, None)
        else:
            edited[key] = value
    return [] if edited == kept else [client_quotas_set(command.entity, edited)]
