"""The JSON Schema of pipeline files, from the declared options: editors complete and check with it."""

from __future__ import annotations

from typing import Any

from ottla.jobs.options import JobOption, JobOptionKind, JobOptions
from ottla.pipeline.parts import CLUSTER, REQUIRED, SECTIONS

_NUMBERS = (JobOptionKind.COUNT, JobOptionKind.PORT)


def json_schema() -> dict[str, Any]:
    """The whole schema."""
    sections: dict[str, Any] = {
        name: {"type": "object", "additionalProperties": _object(options, REQUIRED.get(name, ()))}
        for name, options in SECTIONS.items()
    }
    topic = sections["topics"]["additionalProperties"]
    topic["properties"]["config"] = _configuration("configurations of the topic, by Kafka's names")
    topic["type"] = ["object", "null"]
    sections["connectors"] = {
        "type": "object",
        "additionalProperties": _configuration("a connector's configuration, as Connect takes it"),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a pipeline of ottla",
        "type": "object",
        "properties": {"pipeline": {"type": "string"}, "cluster": _object(CLUSTER, ()), **sections},
        "additionalProperties": False,
    }


def _object(options: JobOptions, required: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {option.name: _value(option) for option in options.all},
        "required": list(required),
        "additionalProperties": False,
    }


def _value(option: JobOption) -> dict[str, Any]:
    found: dict[str, Any] = {"description": option.doc}
    if option.choices:
        return found | {"enum": list(option.choices)}
    if option.kind is JobOptionKind.FLAG:
        return found | {"type": "boolean"}
    if option.kind in _NUMBERS:
        return found | {"type": "integer"}
    if option.kind in (JobOptionKind.NAMES, JobOptionKind.LIST):
        return found | {"type": ["string", "array"], "items": {"type": "string"}}
    if option.kind in (JobOptionKind.SIZE, JobOptionKind.DURATION):
        return found | {"type": ["string", "integer"]}
    return found | {"type": "string"}


def _configuration(doc: str) -> dict[str, Any]:
    return {
        "description": doc,
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    }
