"""Decide deletions and changes of configuration and mode. Pure, as `decide.py`."""

from __future__ import annotations

from dataclasses import replace

from ottla.formats.compatibility import CompatibilityLevel
from ottla.registry import errors
from ottla.registry.decide import READ_ONLY, RegistryDecision
from ottla.registry.records import (
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    ContextKey,
    DeletedThrough,
    GreatestIds,
    Json,
    ModeValue,
    NoopKey,
    Record,
    SchemaKey,
    SubjectConfig,
    SubjectKey,
)
from ottla.registry.state import RegistryState
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of, join

MODES = frozenset({"READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"})
SETTINGS = (
    "alias",
    "normalize",
    "validateFields",
    "validateRules",
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
"""Names of a configuration, in the order in which records have them."""


def delete_version(state: RegistryState, subject: str, version: int, *, permanent: bool) -> RegistryDecision[int]:
    """Delete one version: softly, or for good once it is softly deleted."""
    _may_write(state, subject)
    if not state.versions(subject, deleted=True):
        raise errors.subject_not_found(subject)
    value = state.version(subject, version)
    if value is None:
        raise errors.version_not_found(version)
    key = SchemaKey(subject, version)
    if permanent:
        if not value.deleted:
            raise errors.version_not_soft_deleted(subject, version)
        _not_referenced(state, subject, [version], permanent=True)
        return RegistryDecision(version, ((key, None), _greatest_ids(state)))
    if value.deleted:
        raise errors.version_soft_deleted(subject, version)
    _not_referenced(state, subject, [version])
    last = len(state.versions(subject)) == 1
    return RegistryDecision(
        version, ((key, replace(value, deleted=True)), *(_without_settings(state, subject) if last else ()))
    )


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> RegistryDecision[list[int]]:
    """Delete all versions of a subject, softly, or for good once all are softly deleted."""
    _may_write(state, subject)
    everything = state.versions(subject, deleted=True)
    live = [each.version for each in everything if not each.deleted]
    if not everything:
        raise errors.subject_not_found(subject)
    if permanent:
        if live:
            raise errors.subject_not_soft_deleted(subject)
        versions = [each.version for each in everything]
        _not_referenced(state, subject, versions, permanent=True)
        tombstones = tuple((SchemaKey(subject, version), None) for version in versions)
        return RegistryDecision(
            versions, (*tombstones, (SubjectKey(DELETE_SUBJECT, subject), None), _greatest_ids(state))
        )
    if not live:
        raise errors.subject_soft_deleted(subject)
    _not_referenced(state, subject, live)
    deletion: Record = (SubjectKey(DELETE_SUBJECT, subject), DeletedThrough(live[-1]))
    return RegistryDecision(live, (deletion, *_without_settings(state, subject)))


def delete_context(state: RegistryState, context: str) -> RegistryDecision[None]:
    """Delete an empty context."""
    if context == DEFAULT_CONTEXT or context not in state.contexts:
        raise errors.RegistryError(404, f"Context '{context}' not found.")
    if state.contexts[context].holders:
        raise errors.context_not_empty(context)
    return RegistryDecision(None, ((ContextKey(context), None), *_without_settings(state, join(context, ""))))


def change_settings(
    state: RegistryState, subject: str | None, given: dict[str, Json]
) -> RegistryDecision[dict[str, Json]]:
    """Set parts of a configuration; parts that are left out stay, null removes one."""
    _may_write(state, subject)
    level = given.get("compatibilityLevel")
    if level is not None:
        if not isinstance(level, str) or level.upper() not in CompatibilityLevel.__members__:
            raise errors.invalid_level(level)
        given = {**given, "compatibilityLevel": level.upper()}
    before = state.own_settings(subject)
    merged = {**(before.values if before is not None else {}), **given}
    order = [*SETTINGS, *(name for name in merged if name not in SETTINGS)]
    kept = {name: merged[name] for name in order if merged.get(name) is not None}
    return RegistryDecision(given, ((SubjectKey(CONFIG, subject), SubjectConfig(kept)),))


def reset_settings(state: RegistryState, subject: str | None) -> RegistryDecision[dict[str, Json]]:
    """Remove a configuration; the answer is the old one."""
    _may_write(state, subject)
    before = state.own_settings(subject)
    if before is None:
        if subject is not None:
            raise errors.subject_not_found(subject)
        return RegistryDecision({"compatibilityLevel": state.level(None).value})
    return RegistryDecision(dict(before.values), ((SubjectKey(CONFIG, subject), None),))


def change_mode(state: RegistryState, subject: str | None, mode: Json, *, force: bool) -> RegistryDecision[str]:
    """Set a mode. IMPORT wants an empty subject (context, registry), so that ids cannot clash, unless it is forced."""
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise errors.invalid_mode(mode)
    wanted = mode.upper()
    if wanted == "IMPORT" and not force and state.mode(subject) != "IMPORT" and _has_schemas(state, subject):
        raise errors.not_permitted("Cannot import since found existing subjects")
    return RegistryDecision(wanted, ((SubjectKey(MODE, subject), ModeValue(wanted)),))


def reset_mode(state: RegistryState, subject: str | None) -> RegistryDecision[str]:
    """Remove a mode; the answer is the old one."""
    before = state.own_mode(subject)
    if before is None:
        if subject is not None:
            raise errors.subject_not_found(subject)
        return RegistryDecision(state.mode(None))
    return RegistryDecision(before, ((SubjectKey(MODE, subject), None),))


def _may_write(state: RegistryState, subject: str | None) -> None:
    if state.mode(subject) in READ_ONLY:
        raise errors.not_permitted(
            f"Subject {subject} is in read-only mode" if subject else "The registry is read-only"
        )


def _not_referenced(state: RegistryState, subject: str, versions: list[int], *, permanent: bool = False) -> None:
    """Refuse if a live schema refers to a version; if `permanent`, also for a soft-deleted one of another subject."""
    for version in versions:
        for each in state.referrers(subject, version):
            if (not each.deleted and each.version not in versions) or (permanent and each.subject != subject):
                raise errors.reference_exists(subject, version)
            if not each.deleted and each.subject != subject:
                raise errors.reference_exists(subject, version)


def _without_settings(state: RegistryState, subject: str) -> tuple[Record, ...]:
    """Records that remove a subject's own configuration and mode."""
    config = [(SubjectKey(CONFIG, subject), None)] if state.own_settings(subject) is not None else []
    mode = [(SubjectKey(MODE, subject), None)] if state.own_mode(subject) is not None else []
    return (*config, *mode)


def _greatest_ids(state: RegistryState) -> Record:
    """A record that keeps ids from being given out again once the record with the greatest id is gone."""
    return NoopKey(), GreatestIds({name: context.greatest_id for name, context in sorted(state.contexts.items())})


def _has_schemas(state: RegistryState, subject: str | None) -> bool:
    if subject is None:
        return any(context.holders for context in state.contexts.values())
    context = context_of(subject)
    if subject == join(context, "") and context != DEFAULT_CONTEXT:
        return context in state.contexts and bool(state.contexts[context].holders)
    return bool(state.versions(subject))
