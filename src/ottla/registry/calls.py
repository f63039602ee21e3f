"""A request as the endpoints see it: names from the path, parameters, and the JSON body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ottla.registry import errors
from ottla.registry.decide import SchemaProposal
from ottla.registry.errors import RegistryError
from ottla.registry.records import MOST, Json, Reference
from ottla.registry.shapes import check_metadata, check_rule_set
from ottla.registry.state import RegistryState
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of, is_valid, is_valid_scope, qualified, split

T = TypeVar("T")
LATEST = -1
_DIGITS = re.compile("[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class RegistryCall:
    """One request. `context` counts for subjects that name no context."""

    names: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Json = None
    context: str = DEFAULT_CONTEXT

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def text(self, name: str) -> str:
        return (self.query.get(name) or [""])[-1]

    def number(self, name: str, default: int) -> int:
        try:
            return int(self.text(name) or default)
        except ValueError as fault:
            raise RegistryError(404, f"{name} is not a number: {self.text(name)}") from fault

    def page(self, found: Sequence[T]) -> Sequence[T]:
        """The part of a list that `offset` and `limit` choose."""
        offset, limit = max(self.number("offset", 0), 0), self.number("limit", -1)
        return found[offset:] if limit < 0 else found[offset : offset + limit]

    def subject(self, state: RegistryState) -> str:
        """The subject of the path, or the one that it is an alias of."""
        return state.alias(self.plain_subject())

    def plain_subject(self) -> str:
        return qualified(self.names["subject"], self.context)

    def writable_subject(self, state: RegistryState) -> str:
        """The subject of the path; 42208 where nothing may be registered under its name."""
        subject = self.subject(state)
        if not is_valid(subject):
            raise errors.invalid_subject(subject)
        return subject

    def writable_scope(self) -> str | None:
        """The scope of a setting; 42208 where there can be none."""
        scope = self.scope()
        if scope is not None and not is_valid_scope(scope):
            raise errors.invalid_subject(scope)
        return scope

    def scope(self) -> str | None:
        """The scope of a setting: a subject, a context (`:.ctx:`), or everything (None)."""
        if "subject" in self.names:
            subject = self.plain_subject()
            return None if subject == "" else subject
        return None if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    def id_context(self) -> str:
        """The context in which an id is looked up: that of the parameter `subject`."""
        subject = self.text("subject")
        return context_of(subject) if subject.startswith(":.") else self.context

    def wanted_name(self) -> str | None:
        """The subject of the parameter `subject`, if it names one."""
        subject = self.text("subject")
        return qualified(subject, self.context) if subject and split(subject)[1] else None

    def schema_id(self) -> int:
        text = self.names["id"]
        if not _is_number(text):
            raise RegistryError(404, "HTTP 404 Not Found")
        return int(text)

    def version(self) -> int:
        """The version of the path; LATEST for `latest` and -1."""
        text = self.names["version"]
        if text in ("latest", "-1"):
            return LATEST
        if not _is_number(text) or int(text) < 1:
            raise errors.invalid_version(text)
        return int(text)

    def fields(self) -> dict[str, Json]:
        """The body as an object."""
        if not isinstance(self.body, dict):
            raise RegistryError(422, "the body must be a JSON object")
        return self.body

    def proposal(self) -> SchemaProposal:
        """The body as a schema."""
        fields = self.fields()
        kind, metadata, rules = fields.get("schemaType"), _of(fields, "metadata", dict), _of(fields, "ruleSet", dict)
        check_metadata(metadata)
        check_rule_set(rules)
        return SchemaProposal(
            _of(fields, "schema", str),
            "AVRO" if kind is None else str(kind),
            tuple(_reference(each) for each in _of(fields, "references", list) or ()),
            metadata,
            rules,
            _positive(fields, "id"),
            _positive(fields, "version"),
        )


def _is_number(text: str) -> bool:
    """True for a number in ASCII digits that Java's int can hold."""
    return bool(_DIGITS.fullmatch(text)) and int(text) <= MOST


def _of(fields: dict[str, Json], name: str, kind: type) -> Json:
    value = fields.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        words = {str: "a string", list: "a list", dict: "an object", int: "a number"}
        raise RegistryError(422, f"{name} must be {words[kind]}")
    return value


def _positive(fields: dict[str, Json], name: str) -> int | None:
    """A number above 0, or None; clients write -1 or 0 for none."""
    value = _of(fields, name, int)
    if value is not None and value > MOST:
        raise RegistryError(422, f"{name} is greater than {MOST}")
    return value if value is not None and value > 0 else None


def _reference(raw: Json) -> Reference:
    if not isinstance(raw, dict):
        raise RegistryError(422, "references must be objects with name, subject and version")
    name, subject, version = _of(raw, "name", str), _of(raw, "subject", str), _of(raw, "version", int)
    if not name or not subject or version is None:
        raise RegistryError(422, "a reference needs a name, a subject and a version")
    return Reference(name, subject, version)
