"""Endpoints that only read: subjects, versions, ids, GUIDs, contexts. Each takes the state and a call."""

from __future__ import annotations

from ottla.formats.compatibility import InvalidSchema
from ottla.registry import errors
from ottla.registry.calls import LATEST, RegistryCall
from ottla.registry.decide import check, look_up, parsed_value
from ottla.registry.errors import RegistryError
from ottla.registry.identity import guid, guid_bytes
from ottla.registry.parsing import TYPES
from ottla.registry.records import Json, SchemaValue, reference_fields
from ottla.registry.state import RegistryState
from ottla.registry.subjects import matches

SERVER_VERSION = "7.9.0"
"""The version of Confluent's interface that this registry reports."""


def content_fields(state: RegistryState, value: SchemaValue, form: str = "") -> dict[str, Json]:
    """A schema without its place."""
    made: dict[str, Json] = {"guid": guid(value.guid_bytes)}
    if value.schema_type != "AVRO":
        made["schemaType"] = value.schema_type
    if value.references:
        made["references"] = [reference_fields(each) for each in value.references]
    if value.metadata is not None:
        made["metadata"] = value.metadata
    if value.rule_set is not None:
        made["ruleSet"] = value.rule_set
    return made | {"schema": formatted(state, value, form)}


def version_fields(state: RegistryState, value: SchemaValue, form: str = "") -> dict[str, Json]:
    """A version as answers have it."""
    place = {"subject": value.subject, "version": value.version, "id": value.id}
    deleted = {"deleted": True} if value.deleted else {}
    return {**place, "schemaType": value.schema_type, **content_fields(state, value, form), **deleted}


def formatted(state: RegistryState, value: SchemaValue, form: str) -> str:
    """The text in another form: `resolved` Avro has its references inside, `serialized` Protobuf is a descriptor."""
    if (form, value.schema_type) not in (("resolved", "AVRO"), ("serialized", "PROTOBUF")):
        return value.schema
    try:
        tree = parsed_value(state, value).tree
    except InvalidSchema as fault:
        raise errors.invalid_schema(str(fault)) from fault
    if value.schema_type == "AVRO":
        from ottla.formats.avro_tree import AvroSchema
        from ottla.formats.canonical import avro_text

        return avro_text(AvroSchema(tree.root))
    from ottla.registry.protoc import serialized

    return serialized(tree)


def root(_state: RegistryState, _call: RegistryCall) -> Json:
    return {}


def schema_types(_state: RegistryState, _call: RegistryCall) -> Json:
    return list(TYPES)


def server_version(_state: RegistryState, _call: RegistryCall) -> Json:
    return {"version": SERVER_VERSION, "commitId": ""}


def subjects(state: RegistryState, call: RegistryCall) -> Json:
    prefix = call.text("subjectPrefix") or ("" if call.context == "." else f":{call.context}:")
    everywhere = not prefix
    only_deleted = call.flag("deletedOnly") or call.flag("deleted_only")
    with_deleted = call.flag("deleted") or only_deleted
    found = []
    for name in sorted(state.subjects):
        live = bool(state.versions(name))
        shown = (with_deleted or live) and not (only_deleted and live)
        if shown and (everywhere or matches(name, prefix)):
            found.append(name)
    return list(call.page(found))


def versions(state: RegistryState, call: RegistryCall) -> Json:
    subject = call.subject(state)
    only_deleted = call.flag("deletedOnly")
    found = state.versions(subject, deleted=call.flag("deleted") or only_deleted)
    if only_deleted:
        found = [each for each in found if each.deleted]
    if not found:
        raise errors.subject_not_found(subject)
    negative = call.flag("deletedAsNegative")
    return list(call.page([-each.version if each.deleted and negative else each.version for each in found]))


def pick(state: RegistryState, subject: str, version: int, *, deleted: bool) -> SchemaValue:
    """One version; 40401 or 40402 where there is none."""
    found = state.versions(subject, deleted=deleted)
    if not state.versions(subject, deleted=True) or (version == LATEST and not found):
        raise errors.subject_not_found(subject)
    if version == LATEST:
        return found[-1]
    value = state.version(subject, version)
    if value is None or (value.deleted and not deleted):
        if not found:
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(version)
    return value


def version(state: RegistryState, call: RegistryCall) -> Json:
    value = pick(state, call.subject(state), call.version(), deleted=call.flag("deleted"))
    return version_fields(state, value, call.text("format"))


def version_schema(state: RegistryState, call: RegistryCall) -> Json:
    value = pick(state, call.subject(state), call.version(), deleted=call.flag("deleted"))
    return formatted(state, value, call.text("format"))


def referenced_by(state: RegistryState, call: RegistryCall) -> Json:
    value = pick(state, call.subject(state), call.version(), deleted=True)
    found = state.referrers(value.subject, value.version)
    return list(call.page(sorted({each.id for each in found if call.flag("deleted") or not each.deleted})))


def by_metadata(state: RegistryState, call: RegistryCall) -> Json:
    """The newest version whose metadata has all requested properties."""
    subject = call.subject(state)
    wanted = dict(zip(call.query.get("key", ()), call.query.get("value", ()), strict=False))
    found = state.versions(subject, deleted=call.flag("deleted"))
    if not found:
        raise errors.subject_not_found(subject)
    for each in reversed(found):
        properties = (each.metadata or {}).get("properties") or {}
        if all(properties.get(name) == value for name, value in wanted.items()):
            return version_fields(state, each, call.text("format"))
    raise errors.schema_not_found()


def lookup(state: RegistryState, call: RegistryCall) -> Json:
    subject = call.subject(state)
    normalize = call.flag("normalize") or bool(state.setting(subject, "normalize"))
    found = look_up(state, subject, call.proposal(), normalize=normalize, deleted=call.flag("deleted"))
    return version_fields(state, found, call.text("format"))


def schemas(state: RegistryState, call: RegistryCall) -> Json:
    prefix = call.text("subjectPrefix") or ("" if call.context == "." else f":{call.context}:")
    found = []
    for name in sorted(state.subjects):
        if not prefix or matches(name, prefix):
            values = state.versions(name, deleted=call.flag("deleted"))
            found += values[-1:] if call.flag("latestOnly") else values
    return [version_fields(state, each) for each in call.page(found)]


def _holders(state: RegistryState, call: RegistryCall) -> list[SchemaValue]:
    found = state.holders(call.id_context(), call.schema_id())
    if not found:
        raise errors.schema_not_found(call.schema_id())
    name = call.wanted_name()
    preferred = [each for each in found if each.subject == name]
    return preferred + [each for each in found if each.subject != name]


def schema_by_id(state: RegistryState, call: RegistryCall) -> Json:
    made = content_fields(state, _holders(state, call)[0], call.text("format"))
    if call.flag("fetchMaxId"):
        made["maxId"] = state.greatest_id(call.id_context())
    return made


def text_by_id(state: RegistryState, call: RegistryCall) -> Json:
    return formatted(state, _holders(state, call)[0], call.text("format"))


def _shown_holders(state: RegistryState, call: RegistryCall) -> list[SchemaValue]:
    name = call.wanted_name()
    found = [each for each in _holders(state, call) if call.flag("deleted") or not each.deleted]
    return [each for each in found if name is None or each.subject == name]


def subjects_by_id(state: RegistryState, call: RegistryCall) -> Json:
    return list(call.page(sorted({each.subject for each in _shown_holders(state, call)})))


def versions_by_id(state: RegistryState, call: RegistryCall) -> Json:
    found = sorted((each.subject, each.version) for each in _shown_holders(state, call))
    return [{"subject": subject, "version": version} for subject, version in call.page(found)]


def _by_guid(state: RegistryState, call: RegistryCall) -> list[tuple[str, int, SchemaValue]]:
    content = guid_bytes(call.names["guid"])
    found = [] if content is None else list(state.by_guid(content))
    if not found:
        raise errors.schema_not_found(call.names["guid"])
    return found


def schema_by_guid(state: RegistryState, call: RegistryCall) -> Json:
    return content_fields(state, _by_guid(state, call)[0][2], call.text("format"))


def ids_by_guid(state: RegistryState, call: RegistryCall) -> Json:
    return [{"context": context, "id": schema_id} for context, schema_id, _ in _by_guid(state, call)]


def contexts(state: RegistryState, call: RegistryCall) -> Json:
    prefix = call.text("contextPrefix")
    return list(call.page([name for name in state.context_names() if name.startswith(prefix)]))


def settings(state: RegistryState, call: RegistryCall) -> Json:
    scope = call.scope()
    own = state.own_settings(scope)
    if scope is None:
        return {"compatibilityLevel": state.level(None).value, **(own.values if own is not None else {})}
    if call.flag("defaultToGlobal"):
        return {**state.all_settings(scope), "compatibilityLevel": state.level(scope).value}
    if own is None:
        raise errors.level_not_configured(scope)
    return dict(own.values)


def mode(state: RegistryState, call: RegistryCall) -> Json:
    scope = call.scope()
    own = state.own_mode(scope)
    if own is None and scope is not None and not call.flag("defaultToGlobal"):
        raise errors.mode_not_configured(scope)
    return {"mode": own or state.mode(scope)}


def compatibility(state: RegistryState, call: RegistryCall) -> Json:
    """Tell whether a schema is compatible with the registered ones; nothing is changed."""
    subject = call.subject(state)
    against = _against(state, call, subject)
    proposal = call.proposal()
    if proposal.schema is None:
        raise RegistryError(422, "the request has no schema")
    normalize = call.flag("normalize") or bool(state.setting(subject, "normalize"))
    verbose = call.flag("verbose")
    try:
        found = check(state, subject, proposal, against, normalize=normalize)
    except RegistryError as refusal:
        if refusal.code != errors.INVALID_SCHEMA or not verbose:
            raise
        found = [refusal.message]
    answer: dict[str, Json] = {"is_compatible": not found}
    return answer | ({"messages": found} if verbose else {})


def _against(state: RegistryState, call: RegistryCall, subject: str) -> list[SchemaValue]:
    """The live versions that the path names: one of them, the latest if there is one, or all."""
    versions = state.versions(subject)
    if "version" not in call.names:
        return versions
    wanted = call.version()
    found = versions[-1:] if wanted == LATEST else [each for each in versions if each.version == wanted]
    if not found and wanted != LATEST:
        raise errors.version_not_found(wanted)
    return found
