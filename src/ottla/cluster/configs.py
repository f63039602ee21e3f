"""Edits of stored configuration. The handler has checked the values against `config/` before."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.commands import MIN_IN_SYNC, ConfigEdit, ConfigOperation, EditConfigs
from ottla.cluster.partitions import changed_entries, later, least_started_with, settled
from ottla.cluster.protection import policy_refused
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata.entries import ENTRY_LIMIT, Body, ConfigChange, ConfigsSet
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE, Metadata

_RESOURCE_LIMIT = ENTRY_LIMIT // 2


def edit(command: EditConfigs, state: Metadata) -> list[Body] | ApiError:
    """The options that change; an empty list if none does.

    If fewer replicas are required in sync than before, a leader may commit from now on without those that left: by the
    same append these are no longer eligible (rule A6).
    """
    if command.resource_type == TOPIC_RESOURCE and state.topic(command.resource_name) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{command.resource_name}' does not exist.")
    before = dict(state.config(command.resource_type, command.resource_name))
    after = edited(before, command.edits, replace=command.replace)
    if command.resource_type == TOPIC_RESOURCE:
        refused = policy_refused(command.resource_name, before, after)
        if refused is not None:
            return refused
    names = sorted(before.keys() | after.keys())
    changes = [ConfigChange(name=name, value=after.get(name)) for name in names if before.get(name) != after.get(name)]
    if sum(len(name) + len(value.encode()) for name, value in after.items()) > _RESOURCE_LIMIT:
        return ApiError(ErrorCode.INVALID_CONFIG, "The configuration of this resource is too large.")
    if not changes:
        return []
    eligible_no_more: list[PartitionState] = []
    if any(change.name == MIN_IN_SYNC for change in changes):
        eligible_no_more += _settled(command, state, after)
    return [
        *changed_entries(eligible_no_more),
        ConfigsSet(resource_type=command.resource_type, resource_name=command.resource_name, changes=changes),
    ]


def _settled(command: EditConfigs, state: Metadata, after: dict[str, str]) -> Iterator[PartitionState]:
    """The partitions whose sets change with the number that is required in sync."""
    for_all = command.resource_type == BROKER_RESOURCE and command.resource_name == ALL_BROKERS
    of_all = (after if for_all else state.config(BROKER_RESOURCE, ALL_BROKERS)).get(MIN_IN_SYNC)
    for topic in state.topics.values():
        edits_it = command.resource_type == TOPIC_RESOURCE and command.resource_name == topic.name
        if edits_it or for_all:
            value = (after if edits_it else topic.configs).get(MIN_IN_SYNC, of_all)
            required = least_started_with(state) if value is None else int(value)
            for before in topic.partitions:
                if before.eligible and (now := settled(before, required)) != before:
                    yield later(before, now)


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
