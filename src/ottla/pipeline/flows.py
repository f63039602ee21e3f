"""The topics that each part reads and writes, as far as its declaration tells."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.connect.errors import ConfigException
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.validation import plugin_of
from ottla.connect.plugins.base import SourceConnector
from ottla.pipeline.parts import Pipeline, PipelinePart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.streams.graph import Topology

_WRITTEN = ("topic", "kafka.topic", "topics")
_BEGINNINGS = ("topic.prefix",)
_LETTERS = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True, slots=True)
class PartFlow:
    """Topics by name, and patterns of names where a part reads or writes what it finds.

    `unsaid` is true for a part that may write to topics that nothing here tells.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    read_patterns: tuple[str, ...] = ()
    write_patterns: tuple[str, ...] = ()
    unsaid: bool = False
    kinds: dict[str, str] = field(default_factory=dict)
    """The kinds that the part takes the values of topics to be: text, bytes, json, avro, protobuf or jsonschema."""

    def may_write(self, topic: str) -> bool:
        return topic in self.writes or any(re.fullmatch(pattern, topic) for pattern in self.write_patterns)

    def may_read(self, topic: str) -> bool:
        return topic in self.reads or any(re.fullmatch(pattern, topic) for pattern in self.read_patterns)


def flow_of(part: PipelinePart, pipeline: Pipeline) -> PartFlow:
    """The flow of a part. Raises what the part's own reader raises, where a stream's program cannot be imported."""
    return _FLOWS[part.section](part, pipeline)


def topology_of(part: PipelinePart, pipeline: Pipeline) -> Topology:
    """The topology that a part names; paths are against the file's folder, where its modules are looked for, too."""
    from ottla.streams.named import found_topology

    with _in_folder(str(pipeline.folder)):
        return found_topology(str(part.values["app"]))


def letters_of(part: PipelinePart) -> tuple[str, ...]:
    """The topics to which a part sends its dead letters."""
    name = _LETTERS if part.section == "connectors" else "dead_letter"
    return _names(str(part.values.get(name) or ""))


@contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.pop(0)
        os.chdir(before)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _of_connector(part: PipelinePart, pipeline: Pipeline) -> PartFlow:
    config = part.values
    try:
        plugin = plugin_of(config)
    except (CallRefused, ConfigException):
        return PartFlow(unsaid=True)
    letters = letters_of(part)
    if issubclass(plugin, SourceConnector):
        writes = tuple(name for key in _WRITTEN for name in _names(config.get(key, "")))
        patterns = tuple(re.escape(config[key]) + ".*" for key in _BEGINNINGS if config.get(key))
        routed = "transforms" in config
        return PartFlow((), writes + letters, (), patterns, unsaid=routed or not (writes or patterns))
    reads = _names(config.get("topics", ""))
    patterns = (config["topics.regex"],) if config.get("topics.regex") else ()
    kind = _CONVERTED.get(config.get("value.converter", "").rpartition(".")[2])
    return PartFlow(reads, letters, patterns, kinds=dict.fromkeys(reads, kind) if kind else {})


def _of_stream(part: PipelinePart, pipeline: Pipeline) -> PartFlow:
    from ottla.streams.graph import SinkNode

    topology = topology_of(part, pipeline)
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode) and not node.repartition]
    writes = tuple(dict.fromkeys(node.topic for node in sinks if isinstance(node.topic, str)))
    letters = letters_of(part)
    chosen = any(not isinstance(node.topic, str) for node in sinks)
    return PartFlow(tuple(dict.fromkeys(topology.topics())), writes + letters, unsaid=chosen)


def _of_program(part: PipelinePart, pipeline: Pipeline) -> PartFlow:
    reads, writes = _names(str(part.values.get("reads") or "")), _names(str(part.values.get("writes") or ""))
    return PartFlow(reads, writes, unsaid=not (reads or writes))


def _of_lake(part: PipelinePart, pipeline: Pipeline) -> PartFlow:
    values = part.values
    reads = _names(values.get("topics") or "")
    kind = "json" if values.get("json") else values.get("values")
    return PartFlow(
        reads,
        letters_of(part),
        (values["pattern"],) if values.get("pattern") else (),
        kinds=dict.fromkeys(reads, kind) if kind and kind != "binary" else {},
    )


_FLOWS: dict[str, Callable[[PipelinePart, Pipeline], PartFlow]] = {
    "topics": lambda part, pipeline: PartFlow(),
    "acls": lambda part, pipeline: PartFlow(),
    "connectors": _of_connector,
    "programs": _of_program,
    "streams": _of_stream,
    "lakes": _of_lake,
    "mirrors": lambda part, pipeline: PartFlow(unsaid=True),
    "alerts": lambda part, pipeline: PartFlow(),
}
_CONVERTED = {
    "StringConverter": "text",
    "JsonConverter": "json",
    "AvroConverter": "avro",
    "ProtobufConverter": "protobuf",
    "JsonSchemaConverter": "jsonschema",
}
