"""Decides requests: the records to append, and the answer.

Pure: nothing is changed here. A decision is valid as long as no other instance has appended to the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ottla.formats.compatibility import CompatibilityLevel, InvalidSchema, find_incompatibilities
from ottla.registry import errors
from ottla.registry.parsing import ParsedSchema, Sources, parse
from ottla.registry.records import MOST, ContextKey, ContextValue, Json, Record, Reference, SchemaKey, SchemaValue
from ottla.registry.state import READWRITE, RegistryState
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of, qualified

T = TypeVar("T")
READ_ONLY = frozenset({"READONLY", "READONLY_OVERRIDE"})
MAX_SCHEMA_BYTES = 1_000_000
"""A broker's `max.message.bytes` is 1,048,588 by default."""
MAX_REFERENCES_DEEP = 50


@dataclass(frozen=True, slots=True)
class RegistryDecision(Generic[T]):
    """Records to append together, none if nothing changes, and the answer once they are in the topic."""

    answer: T
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaProposal:
    """A schema as a client sends it. `id` and `version` are for the mode IMPORT; `schema` None means the latest."""

    schema: str | None
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Json = None
    rule_set: Json = None
    id: int | None = None
    version: int | None = None


def register(
    state: RegistryState, subject: str, proposal: SchemaProposal, *, normalize: bool = False
) -> RegistryDecision[SchemaValue]:
    """Register a schema under a subject; the version that already has it, if there is one, is the answer."""
    mode = state.mode(subject)
    if proposal.id is not None:
        _may_register(subject, mode, proposal)
        if proposal.schema is None:
            raise errors.invalid_schema("the request has no schema")
        imported = _as_value(state, subject, proposal, normalize=normalize)
        return _import(state, replace(imported, id=proposal.id), proposal.version)
    wanted = _as_value(state, subject, _completed(state, subject, proposal), normalize=normalize)
    found = find(state, wanted)
    if found is not None:
        return RegistryDecision(found)
    _may_register(subject, mode, proposal)
    if mode == READWRITE:
        earlier = _comparable(state, wanted, state.versions(subject))
        conflict = conflicts(state, wanted, state.level(subject), earlier)
        if conflict:
            raise errors.incompatible(subject, conflict)
    ids = state.ids_of(context_of(subject), wanted.guid_bytes)
    schema_id = ids[0] if ids else state.greatest_id(context_of(subject)) + 1
    return _append(state, replace(wanted, id=schema_id, version=next_version(state, subject)))


def _may_register(subject: str, mode: str, proposal: SchemaProposal) -> None:
    if mode in READ_ONLY:
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")
    if proposal.id is not None and mode != "IMPORT":
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    if proposal.id is None and mode != READWRITE:
        raise errors.not_permitted(f"Subject {subject} is not in read-write mode")


def _completed(state: RegistryState, subject: str, proposal: SchemaProposal) -> SchemaProposal:
    """The proposal, completed by the configuration and the version before."""
    versions = state.versions(subject)
    last = versions[-1] if versions else None
    if proposal.schema is None:
        if last is None:
            raise errors.invalid_schema("the request has no schema, and the subject has none to take over")
        proposal = replace(proposal, schema=last.schema, schema_type=last.schema_type, references=last.references)
    metadata = proposal.metadata if proposal.metadata is not None or last is None else last.metadata
    rule_set = proposal.rule_set if proposal.rule_set is not None or last is None else last.rule_set
    return replace(
        proposal,
        metadata=_merged(state, subject, "Metadata", metadata, ("tags", "properties", "sensitive")),
        rule_set=_merged(state, subject, "RuleSet", rule_set, ("migrationRules", "domainRules", "encodingRules")),
    )


def _merged(state: RegistryState, subject: str, kind: str, own: Json, names: tuple[str, ...]) -> Json:
    """Default, own and overriding metadata or rules, merged; None if there are none."""
    layers = [state.setting(subject, f"default{kind}"), own, state.setting(subject, f"override{kind}")]
    given = [layer for layer in layers if isinstance(layer, Mapping)]
    if len(given) < 2:
        return dict(given[0]) if given else None
    made: dict[str, Json] = {}
    for layer in given:
        for name, value in layer.items():
            made[name] = _joined(made.get(name), value) if name in names else value
    return made


def _joined(below: Json, above: Json) -> Json:
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **above}
    if isinstance(below, list) and isinstance(above, list):
        replaced = {_rule_name(each) for each in above}
        return [each for each in below if _rule_name(each) not in replaced] + above
    return below if above is None else above


def _rule_name(rule: Json) -> Json:
    return rule.get("name") if isinstance(rule, Mapping) else rule


def _as_value(state: RegistryState, subject: str, proposal: SchemaProposal, *, normalize: bool) -> SchemaValue:
    """The proposal parsed and printed, without id and version."""
    assert proposal.schema is not None
    if len(proposal.schema.encode("utf-8", "replace")) > MAX_SCHEMA_BYTES:
        raise errors.too_large(MAX_SCHEMA_BYTES)
    proposal = replace(proposal, references=_numbered(state, context_of(subject), proposal.references))
    parsed = parsed_proposal(state, subject, proposal, normalize=normalize)
    return SchemaValue(
        subject,
        0,
        0,
        parsed.text,
        proposal.schema_type,
        proposal.references,
        proposal.metadata,
        proposal.rule_set,
    )


def _numbered(state: RegistryState, context: str, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
    """References with the number of the version that -1, the latest, stands for now: a schema must not change later."""
    made = []
    for each in references:
        versions = state.versions(qualified(each.subject, context)) if each.version == -1 else []
        made.append(replace(each, version=versions[-1].version) if versions else each)
    return tuple(made)


def parsed_proposal(state: RegistryState, subject: str, proposal: SchemaProposal, *, normalize: bool) -> ParsedSchema:
    """Parse what a client sent; RegistryError 42201 where it is not valid."""
    assert proposal.schema is not None
    try:
        sources = sources_of(state, context_of(subject), proposal.references, deleted=False)
        return parse(proposal.schema_type, proposal.schema, sources, normalized=normalize)
    except InvalidSchema as fault:
        raise errors.invalid_schema(str(fault)) from fault


def parsed_value(state: RegistryState, value: SchemaValue, *, normalize: bool = False) -> ParsedSchema:
    """Parse a stored schema."""
    sources = sources_of(state, context_of(value.subject), value.references, deleted=True)
    return parse(value.schema_type, value.schema, sources, normalized=normalize)


def sources_of(state: RegistryState, context: str, references: tuple[Reference, ...], *, deleted: bool) -> Sources:
    """The texts of referenced schemas and of the schemas that those refer to; InvalidSchema if one is missing."""
    found: dict[str, str] = {}
    _gather(state, context, references, found, 0, deleted=deleted)
    return tuple(found.items())


def _gather(
    state: RegistryState,
    context: str,
    references: tuple[Reference, ...],
    found: dict[str, str],
    depth: int,
    *,
    deleted: bool,
) -> None:
    if depth > MAX_REFERENCES_DEEP:
        raise InvalidSchema(f"references are nested more than {MAX_REFERENCES_DEEP} deep")
    for each in references:
        subject = qualified(each.subject, context)
        version = each.version
        versions = state.versions(subject)
        find_one = state.referred if deleted else state.version
        value = (versions[-1] if versions else None) if version == -1 else find_one(subject, version)
        if value is None or (value.deleted and not deleted):
            raise InvalidSchema(errors.no_reference(each))
        if each.name not in found:
            _gather(state, context_of(subject), value.references, found, depth + 1, deleted=True)
            found[each.name] = value.schema


def find(
    state: RegistryState, wanted: SchemaValue, *, deleted: bool = False, any_rules: bool = False
) -> SchemaValue | None:
    """The newest version of the subject with this content; with `any_rules` metadata and rules do not count."""
    content = wanted.guid_bytes
    for each in reversed(state.versions(wanted.subject, deleted=deleted)):
        if each.guid_bytes == content:
            return each
        if not _alike(each, wanted, any_rules=any_rules):
            continue
        if each.schema == wanted.schema or _key(state, each) == _key(state, wanted):
            return each
    return None


def _alike(one: SchemaValue, other: SchemaValue, *, any_rules: bool) -> bool:
    """True if nothing but the text may tell two schemas apart."""
    if one.schema_type != other.schema_type or one.references != other.references:
        return False
    return any_rules or (one.metadata == other.metadata and one.rule_set == other.rule_set)


def _normal_text(state: RegistryState, value: SchemaValue) -> str:
    """The normal form of a stored schema; its own text where another registry took what this one refuses."""
    try:
        return parsed_value(state, value, normalize=True).text
    except InvalidSchema:
        return value.schema


def _key(state: RegistryState, value: SchemaValue) -> str:
    """The form in which a stored schema is compared: another registry may have spelled it differently."""
    try:
        return parsed_value(state, value).key
    except InvalidSchema:
        return value.schema


def look_up(
    state: RegistryState, subject: str, proposal: SchemaProposal, *, normalize: bool = False, deleted: bool = False
) -> SchemaValue:
    """The version of a subject that has a schema; 40401 or 40403 where there is none."""
    if not state.versions(subject, deleted=deleted):
        raise errors.subject_not_found(subject)
    any_rules = proposal.metadata is None and proposal.rule_set is None
    if proposal.schema is None:
        raise errors.invalid_schema("the request has no schema")
    for normal in (False, True) if normalize else (False,):
        wanted = _as_value(state, subject, proposal, normalize=normal)
        found = find(state, wanted, deleted=deleted, any_rules=any_rules)
        if found is not None:
            return found
    if normalize:
        for each in reversed(state.versions(subject, deleted=deleted)):
            if _alike(each, wanted, any_rules=any_rules) and _normal_text(state, each) == wanted.schema:
                return each
    raise errors.schema_not_found()


def _comparable(state: RegistryState, wanted: SchemaValue, versions: list[SchemaValue]) -> list[SchemaValue]:
    """The versions that compatibility is measured against: those of the same group, where groups are configured."""
    group = state.setting(wanted.subject, "compatibilityGroup")
    if not isinstance(group, str):
        return versions
    return [each for each in versions if _group(each, group) == _group(wanted, group)]


def _group(value: SchemaValue, name: str) -> Json:
    properties = (value.metadata or {}).get("properties") or {}
    return properties.get(name)


def conflicts(
    state: RegistryState, wanted: SchemaValue, level: CompatibilityLevel, earlier: list[SchemaValue]
) -> list[str]:
    """The reasons why a schema does not fit earlier versions at a level; none if it does."""
    if level is CompatibilityLevel.NONE or not earlier:
        return []
    try:
        new = parsed_value(state, wanted)
        old = [parsed_value(state, each) for each in earlier]
    except InvalidSchema as fault:
        return [f"a version cannot be parsed: {fault}"]
    index, reasons = find_incompatibilities(level, new, old, lambda reader, writer: reader.incompatibilities(writer))
    if index < 0:
        return []
    against = earlier[index]
    return [
        *reasons,
        f"{{oldSchemaVersion: {against.version}}}",
        f"{{oldSchema: '{against.schema}'}}",
        f"{{compatibility: '{level}'}}",
    ]


def check(
    state: RegistryState, subject: str, proposal: SchemaProposal, against: list[SchemaValue], *, normalize: bool = False
) -> list[str]:
    """The reasons why a schema would not fit these versions at the subject's level."""
    wanted = _as_value(state, subject, _completed(state, subject, proposal), normalize=normalize)
    return conflicts(state, wanted, state.level(subject), _comparable(state, wanted, against))


def next_version(state: RegistryState, subject: str) -> int:
    versions = state.versions(subject, deleted=True)
    return versions[-1].version + 1 if versions else 1


def _import(state: RegistryState, wanted: SchemaValue, version: int | None) -> RegistryDecision[SchemaValue]:
    """Enter a schema under the id, and perhaps the version, that another registry gave it."""
    holders = state.holders(context_of(wanted.subject), wanted.id)
    if holders and holders[0].guid_bytes != wanted.guid_bytes:
        raise errors.id_does_not_match(f"Overwrite new schema with id {wanted.id} is not permitted.")
    ids = state.ids_of(context_of(wanted.subject), wanted.guid_bytes)
    if ids and wanted.id not in ids:
        raise errors.id_does_not_match(f"Schema already registered with id {ids[0]} instead of input id {wanted.id}")
    for holder in holders:
        if holder.subject == wanted.subject and not holder.deleted and version in (None, holder.version):
            return RegistryDecision(holder)
    if version is not None:
        there = state.version(wanted.subject, version)
        if there is not None and not there.deleted:
            raise errors.not_permitted(f"Subject {wanted.subject} already has a version {version} with another schema")
    return _append(state, replace(wanted, version=version or next_version(state, wanted.subject)))


def _append(state: RegistryState, value: SchemaValue) -> RegistryDecision[SchemaValue]:
    """The records that enter a version, with the context's own record if the context is new."""
    context = context_of(value.subject)
    if max(value.id, value.version) > MOST:
        raise errors.used_up(value.subject)
    first: tuple[Record, ...] = ()
    if context != DEFAULT_CONTEXT and context not in state.contexts:
        first = ((ContextKey(context), ContextValue()),)
    return RegistryDecision(value, (*first, (SchemaKey(value.subject, value.version), value)))
