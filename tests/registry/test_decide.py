"""The pure registry: requests change its state only through records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from tests.registry.http_client import record

from ottla.registry import decide_settings as other
from ottla.registry.decide import RegistryDecision, SchemaProposal, check, look_up, register
from ottla.registry.errors import RegistryError
from ottla.registry.records import (
    CLEAR_SUBJECT,
    MOST,
    ClearedSubject,
    Record,
    Reference,
    SchemaKey,
    SchemaValue,
    SubjectKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.registry.state import RegistryState

T = TypeVar("T")


class Desk:
    """A state and the log that made it."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.log: list[tuple[bytes, bytes | None]] = []

    def do(self, decision: RegistryDecision[T]) -> T:
        for key, value in decision.records:
            self.log.append((encode_key(key), encode_value(key, value)))
            self.state.apply(key, value)
        return decision.answer

    def register(self, subject: str, schema: Any, **more: Any) -> SchemaValue:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.do(register(self.state, subject, SchemaProposal(text, **more)))


def replayed(log: list[tuple[bytes, bytes | None]]) -> RegistryState:
    state = RegistryState()
    for key, value in log:
        known = decode_key(key)
        state.apply(known, decode_value(known, value))
    return state


def compacted(log: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """The last record of each key, in the log's order, without tombstones."""
    last = {key: index for index, (key, _) in enumerate(log)}
    return [(key, value) for index, (key, value) in enumerate(log) if last[key] == index and value is not None]


def shown(state: RegistryState) -> Any:
    """Everything that requests can read from a state."""
    contexts = {
        name: (context.greatest_id, {number: list(keys) for number, keys in sorted(context.holders.items())})
        for name, context in sorted(state.contexts.items())
    }
    subjects = {name: state.versions(name, deleted=True) for name in sorted(state.subjects)}
    settings = {name: (state.own_settings(name), state.own_mode(name)) for name in [None, *subjects]}
    return contexts, subjects, settings


def refused(do: Callable[[], object]) -> int:
    with pytest.raises(RegistryError) as refusal:
        do()
    return refusal.value.code


def test_ids_are_shared_by_subjects_of_a_context() -> None:
    desk = Desk()
    first = desk.register("a", record("R", "x"))
    assert (first.id, first.version) == (1, 1)
    assert desk.register("b", record("S", "x")).id == 2
    assert desk.register("b2", record("R", "x")).id == 1


def test_registering_again_changes_nothing() -> None:
    desk = Desk()
    first = desk.register("a", record("R", "x"))
    length = len(desk.log)
    assert desk.register("a", json.dumps(record("R", "x"), indent=4)) == first
    assert len(desk.log) == length


def test_contexts_have_ids_of_their_own() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    assert desk.register(":.lab:a", record("S", "x")).id == 1
    assert sorted(desk.state.contexts) == [".", ".lab"]
    assert b'"keytype":"CONTEXT"' in desk.log[1][0]


def test_versions_go_on_after_soft_deletion() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    desk.do(other.delete_subject(desk.state, "a", permanent=False))
    again = desk.register("a", record("R", "x"))
    assert (again.version, again.id) == (2, 1)


def test_a_subject_starts_anew_after_permanent_deletion_but_ids_do_not() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    desk.do(other.delete_subject(desk.state, "a", permanent=False))
    assert desk.do(other.delete_subject(desk.state, "a", permanent=True)) == [1]
    fresh = replayed(compacted(desk.log))
    assert register(fresh, "b", SchemaProposal('"string"')).answer.id == 2
    again = desk.register("a", record("S", "x"))
    assert (again.version, again.id) == (1, 2)


def test_deletion_is_soft_first() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    assert refused(lambda: other.delete_subject(desk.state, "nobody", permanent=False)) == 40401
    assert refused(lambda: other.delete_subject(desk.state, "a", permanent=True)) == 40405
    assert refused(lambda: other.delete_version(desk.state, "a", 1, permanent=True)) == 40407
    assert refused(lambda: other.delete_version(desk.state, "a", 9, permanent=False)) == 40402
    desk.do(other.delete_version(desk.state, "a", 1, permanent=False))
    assert refused(lambda: other.delete_version(desk.state, "a", 1, permanent=False)) == 40406
    assert refused(lambda: other.delete_subject(desk.state, "a", permanent=False)) == 40404
    assert desk.state.holders(".", 1)
    desk.do(other.delete_version(desk.state, "a", 1, permanent=True))
    assert not desk.state.holders(".", 1)


def test_the_last_soft_deletion_takes_the_settings_along() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    desk.do(other.change_settings(desk.state, "a", {"compatibilityLevel": "FULL"}))
    desk.do(other.change_mode(desk.state, "a", "READWRITE", force=False))
    desk.do(other.delete_version(desk.state, "a", 1, permanent=False))
    assert desk.state.own_settings("a") is None
    assert desk.state.own_mode("a") is None


def test_referenced_versions_stay() -> None:
    desk = Desk()
    desk.register("b", record("x.B", "v"))
    user = {"type": "record", "name": "A", "fields": [{"name": "b", "type": "x.B"}]}
    assert refused(lambda: desk.register("a", user)) == 42201
    desk.register("a", user, references=(Reference("x.B", "b", 1),))
    assert [each.subject for each in desk.state.referrers("b", 1)] == ["a"]
    assert refused(lambda: other.delete_version(desk.state, "b", 1, permanent=False)) == 42206
    assert refused(lambda: other.delete_subject(desk.state, "b", permanent=False)) == 42206
    desk.do(other.delete_subject(desk.state, "a", permanent=False))
    desk.do(other.delete_subject(desk.state, "b", permanent=False))
    assert refused(lambda: other.delete_subject(desk.state, "b", permanent=True)) == 42206


def test_incompatible_schemas_are_refused_by_level() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    assert refused(lambda: desk.register("a", record("R", "x", "y"))) == 409
    desk.do(other.change_settings(desk.state, "a", {"compatibilityLevel": "forward"}))
    desk.register("a", record("R", "x", "y"))
    desk.do(other.change_settings(desk.state, "a", {"compatibilityLevel": "NONE"}))
    desk.register("a", '"string"')


def test_only_the_transitive_levels_look_at_older_versions() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    desk.register("a", record("R", y=1))
    desk.register("a", record("R", "y"))
    assert refused(lambda: other.change_settings(desk.state, "a", {"compatibilityLevel": "ODD"})) == 42203
    desk.do(other.change_settings(desk.state, "a", {"compatibilityLevel": "BACKWARD_TRANSITIVE"}))
    assert refused(lambda: desk.register("a", {**record("R", "y"), "doc": "new"})) == 409


def test_a_compatibility_group_is_compared_with_itself() -> None:
    desk = Desk()
    desk.do(other.change_settings(desk.state, None, {"compatibilityGroup": "major"}))
    desk.register("a", record("R", "x"), metadata={"properties": {"major": "1"}})
    desk.register("a", record("R", "y"), metadata={"properties": {"major": "2"}})
    metadata = {"properties": {"major": "1"}}
    assert refused(lambda: desk.register("a", record("R", "x", "z"), metadata=metadata)) == 409


def test_modes_say_who_may_register() -> None:
    desk = Desk()
    desk.do(other.change_mode(desk.state, "a", "READONLY", force=False))
    assert refused(lambda: desk.register("a", '"int"')) == 42205
    desk.do(other.reset_mode(desk.state, "a"))
    assert refused(lambda: desk.register("a", '"int"', id=7)) == 42205
    assert refused(lambda: other.change_mode(desk.state, "a", "ODD", force=False)) == 42204
    desk.register("a", '"int"')
    assert refused(lambda: other.change_mode(desk.state, "a", "IMPORT", force=False)) == 42205
    assert refused(lambda: other.change_mode(desk.state, None, "IMPORT", force=False)) == 42205
    desk.do(other.change_mode(desk.state, None, "READONLY_OVERRIDE", force=False))
    desk.do(other.change_mode(desk.state, "b", "READWRITE", force=False))
    assert refused(lambda: desk.register("b", '"int"')) == 42205


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"])
def test_a_registered_schema_is_answered_in_every_mode(mode: str) -> None:
    """Producers register at their start what is registered already; a mode must not stop them."""
    desk = Desk()
    value = desk.register("a", '"int"')
    desk.do(other.change_mode(desk.state, None, mode, force=True))
    assert desk.register("a", '"int"') == value
    assert refused(lambda: desk.register("a", '"long"')) == 42205


def test_import_keeps_ids_and_versions() -> None:
    desk = Desk()
    desk.do(other.change_mode(desk.state, "a", "IMPORT", force=False))
    value = desk.register("a", '"int"', id=100, version=5)
    assert (value.id, value.version) == (100, 5)
    assert desk.register("a", '"int"', id=100, version=5) == value
    assert refused(lambda: desk.register("a", '"long"', id=100)) == 42207
    assert refused(lambda: desk.register("a", '"int"', id=101)) == 42207
    assert refused(lambda: desk.register("a", '"long"', id=101, version=5)) == 42205
    assert refused(lambda: desk.register("a", '"long"')) == 42205
    assert desk.register("b", '"long"').id == 101


def test_import_takes_a_schema_as_it_is() -> None:
    """Else the content of an id would differ from that in the registry which it was copied from."""
    desk = Desk()
    desk.do(other.change_settings(desk.state, "a", {"defaultMetadata": {"properties": {"owner": "x"}}}))
    desk.do(other.change_mode(desk.state, None, "IMPORT", force=False))
    desk.register("a", '"int"', id=1, metadata={"properties": {"k": "v"}})
    desk.register("b", '"long"', id=2)
    second = desk.register("a", '"long"', id=2)
    assert (second.version, second.metadata) == (2, None)
    assert refused(lambda: desk.do(register(desk.state, "a", SchemaProposal(None, id=3)))) == 42201


def test_metadata_is_taken_over_and_merged() -> None:
    desk = Desk()
    desk.do(other.change_settings(desk.state, "a", {"defaultMetadata": {"properties": {"owner": "x", "z": "1"}}}))
    desk.do(other.change_settings(desk.state, "a", {"overrideMetadata": {"properties": {"z": "9"}}}))
    first = desk.register("a", record("R", "x"), metadata={"properties": {"owner": "me"}})
    assert first.metadata == {"properties": {"owner": "me", "z": "9"}}
    assert desk.register("a", record("R", "x", y=1)).metadata == first.metadata


def test_a_lookup_without_metadata_finds_any() -> None:
    desk = Desk()
    value = desk.register("a", '"int"', metadata={"properties": {"k": "v"}})
    assert look_up(desk.state, "a", SchemaProposal('"int"')) == value
    assert (
        refused(lambda: look_up(desk.state, "a", SchemaProposal('"int"', metadata={"properties": {"k": "w"}}))) == 40403
    )
    assert refused(lambda: look_up(desk.state, "a", SchemaProposal('"long"'))) == 40403
    assert refused(lambda: look_up(desk.state, "b", SchemaProposal('"int"'))) == 40401


def test_a_normal_lookup_finds_another_spelling() -> None:
    desk = Desk()
    text = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int","p":1,"o":2}]}'
    value = desk.register("a", text)
    other_text = '{"type":"record","name":"n.R","fields":[{"o":2,"p":1,"name":"a","type":{"type":"int"}}]}'
    assert refused(lambda: look_up(desk.state, "a", SchemaProposal(other_text))) == 40403
    assert look_up(desk.state, "a", SchemaProposal(other_text), normalize=True) == value


def test_an_alias_stands_for_its_subject() -> None:
    desk = Desk()
    desk.register("orders", '"int"')
    desk.do(other.change_settings(desk.state, "old-orders", {"alias": "orders"}))
    assert desk.state.alias("old-orders") == "orders"
    assert desk.state.alias("orders") == "orders"


def test_an_empty_context_can_be_deleted() -> None:
    desk = Desk()
    desk.register(":.lab:a", '"int"')
    assert refused(lambda: other.delete_context(desk.state, ".lab")) == 42211
    desk.do(other.delete_subject(desk.state, ":.lab:a", permanent=False))
    desk.do(other.delete_subject(desk.state, ":.lab:a", permanent=True))
    desk.do(other.delete_context(desk.state, ".lab"))
    assert ".lab" not in desk.state.contexts
    assert refused(lambda: other.delete_context(desk.state, ".lab")) == 404


def test_too_large_a_schema_is_refused() -> None:
    desk = Desk()
    assert refused(lambda: desk.register("a", json.dumps({**record("R", "x"), "doc": "x" * 1_000_000}))) == 42209


def test_the_log_and_the_compacted_log_make_the_same_state() -> None:
    desk = Desk()
    desk.register("a", record("R", "x"))
    desk.register("a", record("R", "x", y=1))
    desk.register(":.lab:a", record("R", "x"))
    desk.do(other.change_settings(desk.state, None, {"compatibilityLevel": "FULL"}))
    desk.do(other.change_settings(desk.state, "a", {"compatibilityLevel": "NONE", "normalize": True}))
    desk.register("b", record("S", "x"))
    desk.do(other.delete_subject(desk.state, "b", permanent=False))
    desk.register("b", record("S", "x"))
    desk.do(other.delete_version(desk.state, "a", 1, permanent=False))
    desk.register("c", record("T", "x"))
    desk.do(other.delete_subject(desk.state, "c", permanent=False))
    desk.do(other.delete_subject(desk.state, "c", permanent=True))
    desk.do(other.change_mode(desk.state, "b", "READONLY", force=False))
    assert shown(replayed(desk.log)) == shown(desk.state)
    assert shown(replayed(compacted(desk.log))) == shown(desk.state)


def test_a_record_of_a_key_replaces_the_former() -> None:
    """Another registry may write a version again, with another id."""
    state = RegistryState()
    records: list[Record] = [
        (SchemaKey("a", 2), SchemaValue("a", 2, 5, '"int"')),
        (SchemaKey("a", 1), SchemaValue("a", 1, 4, '"long"')),
        (SchemaKey("a", 2), SchemaValue("a", 2, 6, '"int"')),
    ]
    for key, value in records:
        state.apply(key, value)
    assert [each.version for each in state.versions("a")] == [1, 2]
    assert state.ids_of(".", records[2][1].guid_bytes) == [6]  # type: ignore[union-attr]
    assert not state.holders(".", 5)


@pytest.mark.parametrize("scope", [None, ":.lab:a", ":.lab:"])
def test_deleted_versions_before_a_cleared_scope_are_gone(scope: str | None) -> None:
    """Confluent's registry clears a scope before it imports: its ids may then belong to other schemas."""
    desk = Desk()
    desk.register(":.lab:a", record("Old", "x"))
    desk.register(":.lab:a", record("Old", "x", y=1))
    desk.do(other.delete_version(desk.state, ":.lab:a", 1, permanent=False))
    desk.state.apply(SubjectKey(CLEAR_SUBJECT, scope), ClearedSubject())
    assert [each.version for each in desk.state.versions(":.lab:a", deleted=True)] == [2]
    assert desk.state.holders(".lab", 1) == []
    desk.state.apply(SchemaKey(":.lab:b", 1), SchemaValue(":.lab:b", 1, 1, '"int"'))
    assert [each.schema for each in desk.state.holders(".lab", 1)] == ['"int"']


@pytest.mark.parametrize("scope", ["b", ":.other:", ":.lab:b"])
def test_other_scopes_keep_their_deleted_versions(scope: str) -> None:
    desk = Desk()
    desk.register(":.lab:a", record("Old", "x"))
    desk.do(other.delete_subject(desk.state, ":.lab:a", permanent=False))
    desk.state.apply(SubjectKey(CLEAR_SUBJECT, scope), ClearedSubject())
    assert len(desk.state.versions(":.lab:a", deleted=True)) == 1


def test_no_id_is_given_out_that_values_cannot_name() -> None:
    desk = Desk()
    desk.do(other.change_mode(desk.state, "a", "IMPORT", force=False))
    desk.register("a", record("R", "x"), id=MOST)
    assert refused(lambda: desk.register("b", record("S", "x"))) == 50001
    assert desk.register("b", record("R", "x")).id == MOST


def test_a_stored_schema_that_cannot_be_parsed_does_not_end_a_normal_lookup() -> None:
    """Another registry may have taken what this one refuses."""
    desk = Desk()
    odd = SchemaValue("a", 1, 1, '{"type":"record","name":"R","fields":[{"name":"x","type":"int","default":"no"}]}')
    desk.state.apply(SchemaKey("a", 1), odd)
    assert refused(lambda: look_up(desk.state, "a", SchemaProposal('"int"'), normalize=True)) == 40403


def test_a_reference_to_the_latest_version_stays_with_that_version() -> None:
    desk = Desk()
    desk.register("inner", record("In", "x"))
    latest = (Reference("In", "inner", -1),)
    outer = {"type": "record", "name": "Out", "fields": [{"name": "in", "type": "In"}]}
    value = desk.register("outer", outer, references=latest)
    assert value.references == (Reference("In", "inner", 1),)
    assert refused(lambda: other.delete_subject(desk.state, "inner", permanent=False)) == 42206
    assert look_up(desk.state, "outer", SchemaProposal(json.dumps(outer), references=latest)) == value


def test_a_check_of_all_versions_looks_at_the_same_group_alone() -> None:
    desk = Desk()
    desk.do(other.change_settings(desk.state, "a", {"compatibilityGroup": "major"}))
    desk.register("a", record("R", "x"), metadata={"properties": {"major": "1"}})
    proposal = SchemaProposal('"int"', metadata={"properties": {"major": "2"}})
    assert check(desk.state, "a", proposal, desk.state.versions("a")) == []
    assert check(desk.state, "a", SchemaProposal('"int"'), desk.state.versions("a")) != []
