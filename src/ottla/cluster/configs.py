"""Edits of stored configuration. What a value may be was checked against `config/` by the handler before."""

from __future__ import annotations

from ottla.cluster.commands import ConfigEdit, ConfigOperation, EditConfigs
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata.entries import ENTRY_LIMIT, Body, ConfigChange, ConfigsSet
from ottla.metadata.state import TOPIC_RESOURCE, Metadata

_RESOURCE_LIMIT = ENTRY_LIMIT // 2


def edit(command: EditConfigs, state: Metadata) -> list[Body] | ApiError:
    """The options that change; an empty list where all is so already."""
    if command.resource_type == TOPIC_RESOURCE and state.topic(command.resource_name) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{command.resource_name}' does not exist.")
    before = dict(state.config(command.resource_type, command.resource_name))
    after = edited(before, command.edits, replace=command.replace)
    names = sorted(before.keys() | after.keys())
    changes = [ConfigChange(name=name, value=after.get(name)) for name in names if before.get(name) != after.get(name)]
    if sum(len(name) + len(value.encode()) for name, value in after.items()) > _RESOURCE_LIMIT:
        return ApiError(ErrorCode.INVALID_CONFIG, "The configuration of this resource is too large.")
    if not changes:
        return []
    return [
        ConfigsSet(resource_type=command.resource_type, resource_name=command.resource_name, changes=changes),
    ]


def edited(before: dict[str, str], edits: tuple[ConfigEdit, ...], *, replace: bool) -> dict[str, str]:
    """The options of a resource after the edits."""
    after = {} if replace else dict(before)
    for one in edits:
        if one.operation is ConfigOperation.SET:
            after[one.name] = one.value
        elif one.operation is ConfigOperation.DELETE:
            after.pop(one.name, None)
        else:
            present = _parts(after.get(one.name, one.inherited))
            given = _parts(one.value)
            if one.operation is ConfigOperation.APPEND:
                parts = present + [part for part in given if part not in present]
            else:
                parts = [part for part in present if part not in given]
            after[one.name] = ",".join(parts)
    return after


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
