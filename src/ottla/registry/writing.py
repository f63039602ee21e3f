"""Endpoints that change something: each turns a call into a decision whose answer is the JSON to send."""

from __future__ import annotations

from typing import TypeVar

from ottla.registry import decide_settings, errors
from ottla.registry.calls import LATEST, RegistryCall
from ottla.registry.decide import RegistryDecision, register
from ottla.registry.identity import guid
from ottla.registry.records import Json, SchemaValue, reference_fields
from ottla.registry.shapes import check_settings
from ottla.registry.state import RegistryState
from ottla.registry.subjects import is_valid_context

T = TypeVar("T")


def _answer(decision: RegistryDecision[T], json: Json) -> RegistryDecision[Json]:
    return RegistryDecision(json, decision.records)


def register_schema(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    subject = call.writable_subject(state)
    normalize = call.flag("normalize") or bool(state.setting(subject, "normalize"))
    decision = register(state, subject, call.proposal(), normalize=normalize)
    return _answer(decision, _registered(decision.answer, call.fields()))


def _registered(value: SchemaValue, sent: dict[str, Json]) -> dict[str, Json]:
    """The place of the schema now; the schema itself only if its metadata or rules differ from those that were sent.

    The text is then the client's own: it may have sent a descriptor, which is stored as source.
    """
    made: dict[str, Json] = {"id": value.id, "version": value.version, "guid": guid(value.guid_bytes)}
    if (value.metadata, value.rule_set) == (sent.get("metadata"), sent.get("ruleSet")):
        return made
    made |= {"schemaType": value.schema_type, "references": [reference_fields(each) for each in value.references]}
    made |= {"metadata": value.metadata, "ruleSet": value.rule_set, "schema": sent.get("schema") or value.schema}
    return {name: each for name, each in made.items() if each}


def delete_version(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    subject, version = call.subject(state), call.version()
    permanent = call.flag("permanent")
    if version == LATEST:
        found = state.versions(subject, deleted=permanent)
        if not found:
            raise errors.subject_not_found(subject)
        version = found[-1].version
    decision = decide_settings.delete_version(state, subject, version, permanent=permanent)
    return _answer(decision, decision.answer)


def delete_subject(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    decision = decide_settings.delete_subject(state, call.subject(state), permanent=call.flag("permanent"))
    return _answer(decision, decision.answer)


def delete_context(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    context = call.names["context"].strip(":")
    if not is_valid_context(context):
        raise errors.RegistryError(404, f"Context '{context}' not found.")
    return _answer(decide_settings.delete_context(state, context), None)


def change_settings(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    given = dict(call.fields())
    if "compatibility" in given:
        given["compatibilityLevel"] = given.pop("compatibility")
    known = {name: value for name, value in given.items() if name in decide_settings.SETTINGS}
    check_settings(known)
    decision = decide_settings.change_settings(state, call.writable_scope(), known)
    echo = dict(decision.answer)
    if "compatibilityLevel" in echo:
        echo["compatibility"] = echo.pop("compatibilityLevel")
    return _answer(decision, echo)


def reset_settings(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    decision = decide_settings.reset_settings(state, call.scope())
    return _answer(decision, decision.answer)


def change_mode(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    mode = call.fields().get("mode")
    decision = decide_settings.change_mode(state, call.writable_scope(), mode, force=call.flag("force"))
    return _answer(decision, {"mode": decision.answer})


def reset_mode(state: RegistryState, call: RegistryCall) -> RegistryDecision[Json]:
    decision = decide_settings.reset_mode(state, call.scope())
    return _answer(decision, {"mode": decision.answer})
