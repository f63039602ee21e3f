"""The state that the registry's records make: subjects and versions, ids per context, settings, references.

Pure. Records are applied in the order of the topic; the last one for a key counts, as after compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ottla.formats.compatibility import CompatibilityLevel
from ottla.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    ClearedSubject,
    ContextKey,
    DeletedThrough,
    GreatestIds,
    Json,
    Key,
    ModeValue,
    NoopKey,
    SchemaKey,
    SchemaValue,
    SubjectConfig,
    SubjectKey,
    Value,
)
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of, join, qualified, split

V = TypeVar("V")
DEFAULT_LEVEL = CompatibilityLevel.BACKWARD
READWRITE = "READWRITE"
READONLY_OVERRIDE = "READONLY_OVERRIDE"


@dataclass(slots=True)
class RegistryContext:
    """The ids of one context. An id belongs to one content; a content has one id."""

    holders: dict[int, dict[SchemaKey, None]] = field(default_factory=dict)
    """Id to the versions that have it, oldest first; soft-deleted ones too."""
    by_content: dict[bytes, list[int]] = field(default_factory=dict)
    """Fingerprint to ids. More than one comes from other registries alone."""
    greatest_id: int = 0


class RegistryState:
    """The state. `apply` takes one record; all other methods only read."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, SchemaValue]] = {}
        self.subjects: Mapping[str, Mapping[int, SchemaValue]] = self._subjects
        self.contexts: dict[str, RegistryContext] = {DEFAULT_CONTEXT: RegistryContext()}
        self._settings: dict[str | None, SubjectConfig] = {}
        self._modes: dict[str | None, str] = {}
        self._referrers: dict[SchemaKey, dict[SchemaKey, None]] = {}

    def only(self, sees: Callable[[str], bool]) -> RegistryState:
        """The state without the subjects that `sees` refuses, for reading: good until the next record is applied.

        What a registered schema refers to is found all the same: it goes with the schema.
        """
        return _Seen(self, sees)

    # -- records ---

    def apply(self, key: Key, value: Value) -> None:
        """Take one record of the topic, a tombstone too."""
        if isinstance(key, SchemaKey):
            assert value is None or isinstance(value, SchemaValue)
            self._apply_schema(key, value)
        elif isinstance(key, NoopKey) and isinstance(value, GreatestIds):
            for name, number in value.ids.items():
                context = self._context(name)
                context.greatest_id = max(context.greatest_id, number)
        elif isinstance(key, ContextKey):
            self._apply_context(key.context, exists=value is not None)
        elif isinstance(key, SubjectKey):
            self._apply_subject(key, value)

    def _apply_schema(self, key: SchemaKey, value: SchemaValue | None) -> None:
        versions = self._subjects.setdefault(key.subject, {})
        former = versions.pop(key.version, None)
        if former is not None:
            self._forget(key, former)
        if value is not None:
            versions[key.version] = value
            if versions and next(reversed(versions)) < max(versions):
                self._subjects[key.subject] = dict(sorted(versions.items()))
            self._enter(key, value)
        elif not versions:
            del self._subjects[key.subject]

    def _enter(self, key: SchemaKey, value: SchemaValue) -> None:
        context = self._context(context_of(key.subject))
        context.holders.setdefault(value.id, {})[key] = None
        ids = context.by_content.setdefault(value.guid_bytes, [])
        if value.id not in ids:
            ids.append(value.id)
        context.greatest_id = max(context.greatest_id, value.id)
        for target in self.targets(value):
            self._referrers.setdefault(target, {})[key] = None

    def _forget(self, key: SchemaKey, former: SchemaValue) -> None:
        context = self._context(context_of(key.subject))
        holders = context.holders[former.id]
        del holders[key]
        content = former.guid_bytes
        if not any(self._at(holder).guid_bytes == content for holder in holders):
            context.by_content[content].remove(former.id)
            if not context.by_content[content]:
                del context.by_content[content]
        if not holders:
            del context.holders[former.id]
        for target in self.targets(former):
            self._referrers[target].pop(key, None)

    def _apply_context(self, name: str, *, exists: bool) -> None:
        if exists:
            self._context(name)
        elif name != DEFAULT_CONTEXT and name in self.contexts and not self.contexts[name].holders:
            del self.contexts[name]

    def _apply_subject(self, key: SubjectKey, value: Value) -> None:
        if key.kind == CONFIG:
            _set(self._settings, key.subject, value if isinstance(value, SubjectConfig) else None)
        elif key.kind == MODE:
            _set(self._modes, key.subject, value.mode if isinstance(value, ModeValue) else None)
        elif key.kind == DELETE_SUBJECT and isinstance(value, DeletedThrough) and key.subject is not None:
            for version, each in list(self.subjects.get(key.subject, {}).items()):
                if version <= value.version and not each.deleted:
                    self._apply_schema(SchemaKey(key.subject, version), replace(each, deleted=True))
        elif key.kind == CLEAR_SUBJECT and isinstance(value, ClearedSubject):
            self._clear(key.subject)

    def _clear(self, scope: str | None) -> None:
        """Forget the soft-deleted versions of a subject, of a context (`:.ctx:`), or of all (None)."""
        context, name = split(scope or "")
        for subject in list(self.subjects):
            if scope is None or subject == scope or (not name and context_of(subject) == context):
                for each in self.versions(subject, deleted=True):
                    if each.deleted:
                        self._apply_schema(SchemaKey(subject, each.version), None)

    def _context(self, name: str) -> RegistryContext:
        return self.contexts.setdefault(name, RegistryContext())

    def _at(self, key: SchemaKey) -> SchemaValue:
        return self.subjects[key.subject][key.version]

    # -- schemas ---

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaValue]:
        """A subject's versions, oldest first; soft-deleted ones if asked for."""
        return [each for each in self.subjects.get(subject, {}).values() if deleted or not each.deleted]

    def version(self, subject: str, version: int) -> SchemaValue | None:
        return self.subjects.get(subject, {}).get(version)

    def referred(self, subject: str, version: int) -> SchemaValue | None:
        """The version to which a registered schema refers, a soft-deleted one too."""
        return self.version(subject, version)

    def holders(self, context: str, schema_id: int) -> list[SchemaValue]:
        """The versions that have an id in a context, soft-deleted ones too."""
        found = self.contexts.get(context)
        keys = found.holders.get(schema_id, ()) if found else ()
        return [self._at(key) for key in keys if key.subject in self.subjects]

    def ids_of(self, context: str, content: bytes) -> list[int]:
        """The ids of a content in a context, the oldest first."""
        found = self.contexts.get(context)
        return found.by_content.get(content, []) if found else []

    def greatest_id(self, context: str) -> int:
        """The greatest id that a context has ever given out; 0 where there is none."""
        found = self.contexts.get(context)
        return found.greatest_id if found else 0

    def by_guid(self, content: bytes) -> Iterator[tuple[str, int, SchemaValue]]:
        """Context, id and a version for each place that has a content."""
        for name, context in self.contexts.items():
            for schema_id in context.by_content.get(content, ()):
                for key in context.holders[schema_id]:
                    if key.subject in self.subjects and (value := self._at(key)).guid_bytes == content:
                        yield name, schema_id, value
                        break

    def context_names(self) -> list[str]:
        """The contexts that there are, sorted."""
        return sorted(self.contexts)

    def targets(self, value: SchemaValue) -> list[SchemaKey]:
        """The versions that a schema refers to; a reference without context means the schema's own."""
        context = context_of(value.subject)
        return [SchemaKey(qualified(each.subject, context), each.version) for each in value.references]

    def referrers(self, subject: str, version: int) -> list[SchemaValue]:
        """The versions that refer to this one."""
        keys = self._referrers.get(SchemaKey(subject, version), ())
        return [self._at(key) for key in keys if key.subject in self.subjects]

    # -- settings ---

    def own_settings(self, subject: str | None) -> SubjectConfig | None:
        """The settings made for a subject itself, for a context (`:.ctx:`), or for all (None)."""
        return self._settings.get(subject)

    def setting(self, subject: str | None, name: str) -> Json:
        """The setting that counts for a subject: its own, its context's, or the registry's, in this order; or None."""
        for scope in _scopes(subject):
            found = self._settings.get(scope)
            if found is not None and found.values.get(name) is not None:
                return found.values[name]
        return None

    def all_settings(self, subject: str | None) -> dict[str, Json]:
        """All settings that count for a subject, whichever scope they are from."""
        made: dict[str, Json] = {}
        for scope in reversed(_scopes(subject)):
            found = self._settings.get(scope)
            made |= found.values if found is not None else {}
        return made

    def level(self, subject: str | None) -> CompatibilityLevel:
        found = self.setting(subject, "compatibilityLevel")
        try:
            return CompatibilityLevel(found or DEFAULT_LEVEL)
        except ValueError:
            return DEFAULT_LEVEL

    def alias(self, subject: str) -> str:
        """The subject behind a name: its alias if it has one, else itself."""
        found = self._settings.get(subject)
        alias = found.values.get("alias") if found is not None else None
        return qualified(alias, context_of(subject)) if isinstance(alias, str) and alias else subject

    def own_mode(self, subject: str | None) -> str | None:
        return self._modes.get(subject)

    def mode(self, subject: str | None) -> str:
        """The mode that counts for a subject; READONLY_OVERRIDE of the whole registry overrides the subject's own."""
        if self._modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        for scope in _scopes(subject):
            if scope in self._modes:
                return self._modes[scope]
        return READWRITE


class _Seen(RegistryState):
    """A state that shares all with the whole one, and looks subjects up among those that `sees` takes."""

    def __init__(self, whole: RegistryState, sees: Callable[[str], bool]) -> None:
        self._whole = whole
        self.subjects, self.contexts = _SeenSubjects(whole.subjects, sees), whole.contexts
        self._settings, self._modes, self._referrers = whole._settings, whole._modes, whole._referrers

    def referred(self, subject: str, version: int) -> SchemaValue | None:
        return self._whole.referred(subject, version)

    def context_names(self) -> list[str]:
        seen = {context_of(subject) for subject in self.subjects} | {DEFAULT_CONTEXT}
        return [name for name in self._whole.context_names() if name in seen]


class _SeenSubjects(Mapping[str, Mapping[int, SchemaValue]]):
    def __init__(self, subjects: Mapping[str, Mapping[int, SchemaValue]], sees: Callable[[str], bool]) -> None:
        self._subjects, self._sees = subjects, sees

    def __getitem__(self, subject: str) -> Mapping[int, SchemaValue]:
        if not self._sees(subject):
            raise KeyError(subject)
        return self._subjects[subject]

    def __iter__(self) -> Iterator[str]:
        return filter(self._sees, self._subjects)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _scopes(subject: str | None) -> list[str | None]:
    """The scopes of a subject's settings, from its own to the whole registry."""
    if subject is None:
        return [None]
    context = context_of(subject)
    of_context = [] if context == DEFAULT_CONTEXT else [join(context, "")]
    return [subject, *(each for each in of_context if each != subject), None]


def _set(where: dict[str | None, V], subject: str | None, value: V | None) -> None:
    if value is None:
        where.pop(subject, None)
    else:
        where[subject] = value
