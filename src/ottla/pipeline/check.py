"""Finds what cannot work, without a cluster: names, options, topics that nobody writes, formats, circles."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ottla.cli.faults import BadInput, Misuse
from ottla.config.option import nearest
from ottla.config.properties import parse_properties
from ottla.connect.errors import ConfigException
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.validation import validated
from ottla.formats.writer import WriterSchema
from ottla.mirror.options import mirrors_of
from ottla.pipeline.children import program_words
from ottla.pipeline.document import Document
from ottla.pipeline.flows import PartFlow, flow_of
from ottla.pipeline.parts import KINDS, Pipeline, PipelinePart
from ottla.pipeline.rights import acls_of

SCHEMAS = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
"""Kinds of schemas, by the ends of their files' names."""
_VALUES = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "jsonschema"}
_ALIKE = {("jsonschema", "json"), ("json", "jsonschema")}

Flows = dict[tuple[str, str], PartFlow]


def check(pipeline: Pipeline, document: Document) -> Flows:
    """Find all that is wrong; the flows of the parts that could be read."""
    flows: Flows = {}
    for part in pipeline.parts:
        if part.section in _CHECKS:
            _CHECKS[part.section](part, pipeline, document)
        try:
            flows[part.section, part.name] = flow_of(part, pipeline)
        except Exception as fault:  # a program of the user's: whatever it raises when it is imported
            reason = str(fault) if isinstance(fault, BadInput) else f"{type(fault).__name__}: {fault}"
            document.find((*part.at, "app"), f"{part.values['app']} cannot be used: {reason}")
    if not pipeline.cluster["bootstrap"] and not pipeline.cluster["start"]:
        document.find(("cluster",), "cluster: give bootstrap, or start: true for a broker of the pipeline's own")
    _topics(pipeline, document, flows)
    _formats(pipeline, document, flows)
    _circles(pipeline, document, flows)
    _groups(pipeline, document)
    _after(pipeline, document)
    return flows


def kind_of(pipeline: Pipeline, topic: PipelinePart, side: str = "value") -> str:
    """The kind of a topic's values or keys: text, bytes, json, avro, protobuf, jsonschema; empty where none is said."""
    kind_or_file = str(topic.values.get(side) or "")
    if kind_or_file in KINDS or not kind_or_file:
        return kind_or_file
    return _VALUES.get(SCHEMAS.get(Path(kind_or_file).suffix, ""), "")


def schema_of(pipeline: Pipeline, topic: PipelinePart, side: str) -> WriterSchema | None:
    """The schema that a topic's file holds, None where there is no file; OSError and ValueError where it is none."""
    kind_or_file = str(topic.values.get(side) or "")
    if not kind_or_file or kind_or_file in KINDS:
        return None
    kind = SCHEMAS.get(Path(kind_or_file).suffix)
    if kind is None:
        raise ValueError(
            f"{side} {kind_or_file}: give {', '.join(KINDS)}, or a file with a schema: {', '.join(SCHEMAS)}"
            + nearest(kind_or_file, KINDS)
        )
    text = pipeline.path(kind_or_file).read_text(encoding="utf-8")
    if kind != "PROTOBUF":
        json.loads(text)
    return WriterSchema(kind, text)


def _check_topic(part: PipelinePart, pipeline: Pipeline, document: Document) -> None:
    from ottla.config.topic import TopicConfig

    known = {option.name: option for option in TopicConfig.OPTIONS}
    for name, text in part.values["config"].items():
        at = (*part.at, "config", name)
        if name not in known:
            document.find(at, f"topics have no configuration {name}{nearest(name, known)}")
            continue
        try:
            known[name].parse(text)
        except ValueError as fault:
            document.find(at, str(fault))
    for side in ("key", "value"):
        try:
            schema_of(pipeline, part, side)
        except (OSError, ValueError) as fault:
            document.find((*part.at, side), str(fault))


def _check_connector(part: PipelinePart, pipeline: Pipeline, document: Document) -> None:
    try:
        answer = validated({"name": part.name, **part.values}, WorkerView())
    except (CallRefused, ConfigException) as fault:
        document.find((*part.at, "connector.class"), str(fault))
        return
    for each in answer.checked:
        for error in each.errors:
            document.find((*part.at, each.option.name), error)
    for sentence in answer.unknown:
        document.find(part.at, sentence, warning=True)


def _check_lake(part: PipelinePart, pipeline: Pipeline, document: Document) -> None:
    if bool(part.values.get("topics")) == bool(part.values.get("pattern")):
        document.find(part.at, f"lakes: {part.name} names topics or a pattern, one of them")


def _check_acl(part: PipelinePart, pipeline: Pipeline, document: Document) -> None:
    try:
        acls_of(part)
    except ValueError as fault:
        document.find(part.at, str(fault))


def _check_program(part: PipelinePart, pipeline: Pipeline, document: Document) -> None:
    try:
        words = program_words(str(part.values["run"]))
    except ValueError as fault:
        document.find((*part.at, "run"), f"run is no command line: {fault}")
        return
    if shutil.which(words[0]) is None and not pipeline.path(words[0]).exists():
        document.find((*part.at, "run"), f"there is no program {words[0]}{nearest(words[0], ('python', 'ottla'))}")


def _after(pipeline: Pipeline, document: Document) -> None:
    """A part waits for parts that may end, and none for itself."""
    ending = [part for part in pipeline.parts if part.ends]
    names = [part.name for part in ending]
    before = {part.at: [each for each in ending if each.name in part.after] for part in pipeline.parts}
    for part in pipeline.parts:
        for name in part.after:
            if names.count(name) != 1:
                what = "two parts that end have" if name in names else "no program, and no load without every, has"
                document.find((*part.at, "after"), f"{what} the name {name}{nearest(name, names)}")
        following = {at: [each.at for each in parts] for at, parts in before.items()}
        if circle := _circle(part.at, following):
            document.find((*part.at, "after"), f"it would wait for itself: {' -> '.join(name for _, name in circle)}")


def _check_mirror(part: PipelinePart, pipeline: Pipeline, document: Document) -> None:
    try:
        text = pipeline.path(str(part.values["file"])).read_text(encoding="utf-8")
        mirrors_of(parse_properties(text))
    except (OSError, ValueError, ConfigException, Misuse) as fault:
        document.find((*part.at, "file"), f"{part.values['file']}: {fault}")


def _check_alert(part: PipelinePart, pipeline: Pipeline, document: Document) -> None:
    values = part.values
    if not (values.get("group") and values.get("lag")) and not (values.get("topic") and values.get("records")):
        document.find(part.at, f"alerts: {part.name} watches a group with its lag, or a topic with its records")
    url = values.get("webhook") or ""
    if url and not url.startswith(("http://", "https://")):
        document.find((*part.at, "webhook"), f"webhook {url}: give an http:// or https:// URL")


def _topics(pipeline: Pipeline, document: Document, flows: Flows) -> None:
    """Every topic that is read is declared, or some part writes it."""
    declared = {part.name for part in pipeline.of("topics")}
    open_ended = any(flow.unsaid for flow in flows.values())
    written = {topic for flow in flows.values() for topic in flow.writes}
    for at, flow in flows.items():
        for topic in flow.reads:
            if topic in declared or any(other.may_write(topic) for other in flows.values()):
                continue
            hint = nearest(topic, declared | written)
            document.find(
                at,
                f"{topic} is read here, and no part writes it and no topic is declared so{hint}",
                warning=open_ended and not hint,
            )


def _formats(pipeline: Pipeline, document: Document, flows: Flows) -> None:
    """A part takes a topic's values for what they are declared to be."""
    for topic in pipeline.of("topics"):
        declared = kind_of(pipeline, topic)
        for at, flow in flows.items():
            taken = flow.kinds.get(topic.name)
            if declared and taken and taken != declared and (taken, declared) not in _ALIKE:
                document.find(at, f"{topic.name} is read as {taken} here, and its values are declared as {declared}")


def _circles(pipeline: Pipeline, document: Document, flows: Flows) -> None:
    """Records would go round for ever where parts read what they write."""
    following = {
        at: [other for other, flow in flows.items() if _passes(flows[at], flow)]
        for at in flows
    }  # fmt: skip
    done: set[Any] = set()
    for start in following:
        if start not in done and (circle := _circle(start, following)):
            done |= set(circle)
            names = " -> ".join(name for _, name in [*circle, circle[0]])
            document.find(start, f"records would go round: {names}", warning=len(circle) > 1)


def _passes(one: PartFlow, other: PartFlow) -> bool:
    """True if the second reads what the first writes."""
    return any(other.may_read(topic) for topic in one.writes)


def _circle(start: tuple[str, str], following: dict[tuple[str, str], list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """The shortest way from a part back to it, none: empty."""
    ways = [[start]]
    seen = {start}
    while ways:
        way = ways.pop(0)
        for after in following[way[-1]]:
            if after == start:
                return way
            if after not in seen:
                seen.add(after)
                ways.append([*way, after])
    return []


def _groups(pipeline: Pipeline, document: Document) -> None:
    """Two streams with one application id would share their records; an alert watches a group that somebody has."""
    owners: dict[str, PipelinePart] = {}
    for part in pipeline.of("streams"):
        if (other := owners.setdefault(part.application_id, part)) is not part:
            document.find(part.at, f"{part.name} and {other.name} have one application id: {part.application_id}")
    known = {*owners, *(f"connect-{part.name}" for part in pipeline.of("connectors"))}
    for part in pipeline.of("alerts"):
        group = str(part.values.get("group") or "")
        if group and group not in known and (hint := nearest(group, known)):
            document.find((*part.at, "group"), f"no part has the group {group}{hint}", warning=True)


_CHECKS = {
    "topics": _check_topic,
    "connectors": _check_connector,
    "lakes": _check_lake,
    "acls": _check_acl,
    "programs": _check_program,
    "mirrors": _check_mirror,
    "alerts": _check_alert,
}
