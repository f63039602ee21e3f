"""The sections of a pipeline file and their options, each declared once; a file's parts, with their values checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.config.option import nearest
from ottla.jobs.options import JobOption, JobOptionKind, JobOptions, OptionRefused
from ottla.lake.options import OPTIONS as LAKE_OPTIONS
from ottla.pipeline.document import At, Document

_TEXT, _FLAG, _COUNT, _PORT = JobOptionKind.TEXT, JobOptionKind.FLAG, JobOptionKind.COUNT, JobOptionKind.PORT
_DURATION, _NAMES = JobOptionKind.DURATION, JobOptionKind.NAMES
_LAKE_OWN = ("bootstrap", "registry", "metrics_port")
"""Options of a load that the pipeline gives itself."""
_AFTER = JobOption("after", _NAMES, "", "programs and loads that must have ended well before it begins")

CLUSTER = JobOptions(
    "cluster",
    [
        JobOption("bootstrap", _TEXT, "", "brokers of the cluster, HOST:PORT"),
        JobOption("command_config", _TEXT, "", "a property file with client options"),
        JobOption("registry", _TEXT, "", "the URL of a schema registry"),
        JobOption("connect", _TEXT, "", "the URL of a worker of Connect; without one, `run` starts a worker"),
        JobOption("start", _FLAG, False, "start a broker of this pipeline's own, if no bootstrap is given"),
        JobOption("port", _PORT, 9092, "the port of the broker that is started"),
        JobOption("data", _TEXT, "", "the data of the broker that is started"),
    ],
)
SECTIONS = {
    "topics": JobOptions(
        "topics",
        [
            JobOption("partitions", _COUNT, None, "the number of partitions"),
            JobOption("replication", _COUNT, None, "the number of replicas"),
            JobOption("value", _TEXT, "", "what values are: text, bytes, json, or a file with their schema"),
            JobOption("key", _TEXT, "", "what keys are, likewise"),
        ],
        beside=["config"],
    ),
    "acls": JobOptions(
        "acls",
        [
            JobOption("user", _TEXT, "", "the user that the rule is about"),
            JobOption("may", _NAMES, "", "the operations that are allowed: read, write, describe, ..., or all"),
            JobOption("topics", _NAMES, "", "the topics; a name that ends with * is the beginning of names"),
            JobOption("groups", _NAMES, "", "the groups, likewise"),
            JobOption("transactional_ids", _NAMES, "", "the transactional ids, likewise"),
            JobOption("host", _TEXT, "", "the address that the user must come from; default: any"),
        ],
    ),
    "programs": JobOptions(
        "programs",
        [
            JobOption("run", _TEXT, "", "the command line; it finds the brokers in OTTLA_BOOTSTRAP_SERVERS"),
            JobOption("reads", _NAMES, "", "the topics that it reads"),
            JobOption("writes", _NAMES, "", "the topics that it writes"),
            _AFTER,
        ],
    ),
    "streams": JobOptions(
        "streams",
        [
            JobOption("app", _TEXT, "", "the topology: app.py:NAME or package.module:NAME"),
            JobOption("id", _TEXT, "", "the application id, which is the consumer group; default: the part's name"),
            JobOption("on", _TEXT, "local", "where it runs", choices=("local", "spark")),
            JobOption("stores", _TEXT, "memory", "where its stores are", choices=("memory", "disk")),
            JobOption("on_error", _TEXT, "", "fail, skip or dead-letter"),
            JobOption("dead_letter", _TEXT, "", "a topic for records that fail"),
        ],
    ),
    "lakes": JobOptions(
        "lakes",
        [
            JobOption("topics", _NAMES, "", "the topics to load"),
            JobOption("to", _TEXT, "", "the lake's path or URL"),
            JobOption("every", _DURATION, None, "load again and again; without it, once"),
            _AFTER,
            *(option for option in LAKE_OPTIONS if option.name not in _LAKE_OWN),
        ],
    ),
    "mirrors": JobOptions("mirrors", [JobOption("file", _TEXT, "", "a property file of MirrorMaker 2")]),
    "alerts": JobOptions(
        "alerts",
        [
            JobOption("group", _TEXT, "", "the consumer group that is watched"),
            JobOption("topic", _TEXT, "", "a topic that is watched, such as one of dead letters"),
            JobOption("lag", _COUNT, None, "say so where the group is more records behind"),
            JobOption("records", _COUNT, None, "say so where the topic has so many records, or more"),
            JobOption("every", _DURATION, 10_000, "how often to look"),
            JobOption("webhook", _TEXT, "", "an http:// or https:// URL that is told by POST, with JSON"),
        ],
    ),
}
REQUIRED = {"acls": ("user", "may"), "programs": ("run",), "streams": ("app",), "lakes": ("to",), "mirrors": ("file",)}
ORDER = ("topics", "acls", "connectors", "programs", "streams", "lakes", "mirrors", "alerts")
BATCH = ("programs", "lakes")
"""Sections whose parts may end, and wait for each other."""
KINDS = ("text", "bytes", "json")


@dataclass(frozen=True, slots=True)
class PipelinePart:
    """One entry of a section. `values` are checked; a connector's are its configuration as it stands, all texts."""

    section: str
    name: str
    values: Mapping[str, Any]

    @property
    def at(self) -> tuple[str, str]:
        return (self.section, self.name)

    @property
    def label(self) -> str:
        """`connector orders-in`."""
        return f"{self.section.removesuffix('s')} {self.name}" if self.section != "streams" else f"stream {self.name}"

    @property
    def after(self) -> tuple[str, ...]:
        """The names of the parts that it waits for."""
        names = str(self.values.get("after") or "") if self.section in BATCH else ""
        return tuple(name.strip() for name in names.split(",") if name.strip())

    @property
    def ends(self) -> bool:
        """True for a part that may end by itself, so that others can wait for it."""
        return self.section in BATCH and not self.values.get("every")

    @property
    def application_id(self) -> str:
        return str(self.values.get("id") or self.name)


@dataclass(slots=True)
class Pipeline:
    """The whole of a file. `folder` is the file's, against which paths are."""

    name: str
    folder: Path
    cluster: Mapping[str, Any]
    parts: list[PipelinePart] = field(default_factory=list)

    def of(self, section: str) -> list[PipelinePart]:
        return [part for part in self.parts if part.section == section]

    def path(self, text: str) -> Path:
        return self.folder / text


def pipeline_of(document: Document, folder: Path, name: str) -> Pipeline:
    """The parts of a document; what is wrong becomes a finding, and such a part is left out."""
    known = ("pipeline", "cluster", *ORDER)
    for key in document.values:
        if key not in known:
            document.find((key,), f"a pipeline has no section {key}{nearest(key, known)}")
    given = document.values.get("pipeline", name)
    if not isinstance(given, str) or not given:
        document.find(("pipeline",), "pipeline is the pipeline's name, a text")
        given = name
    cluster = _checked(document, ("cluster",), document.values.get("cluster", {}), CLUSTER) or {}
    pipeline = Pipeline(given, folder, {**CLUSTER.defaults, **cluster})
    for section in ORDER:
        entries = document.values.get(section)
        if entries is None:
            continue
        if not isinstance(entries, dict):
            document.find((section,), f"{section} is a map: a name, and below it what it is")
            continue
        pipeline.parts += [part for name in entries if (part := _part(document, section, name, entries[name]))]
    return pipeline


def _part(document: Document, section: str, name: str, given: Any) -> PipelinePart | None:
    at = (section, name)
    if given is None and section == "topics":
        given = {}
    if not isinstance(given, dict):
        document.find(at, f"{section}: {name} is a map of options")
        return None
    if section == "connectors":
        return PipelinePart(section, name, dict(_texts(document, at, given)))
    config: dict[str, str] = {}
    if section == "topics":
        given = dict(given)
        below = given.pop("config", {})
        if not isinstance(below, dict):
            document.find((*at, "config"), "config is a map of a topic's configurations")
            below = {}
        config = dict(_texts(document, (*at, "config"), below))
    values = _checked(document, at, given, SECTIONS[section])
    if values is None:
        return None
    missing = [option for option in REQUIRED.get(section, ()) if not values.get(option)]
    for option in missing:
        document.find(at, f"{section}: {name} needs {option}: {SECTIONS[section].by_name[option].doc}")
    if section == "topics":
        values = {**values, "config": config}
    return None if missing else PipelinePart(section, name, values)


def _checked(document: Document, at: At, given: Any, options: JobOptions) -> dict[str, Any] | None:
    """The values, each checked by itself so that all faults are told; None where there is any."""
    if not isinstance(given, dict):
        document.find(at, f"{'.'.join(at)} is a map of options")
        return None
    values: dict[str, Any] = {}
    for name, value in given.items():
        try:
            values |= options.checked({name: value})
        except (TypeError, OptionRefused) as fault:
            document.find((*at, name), str(fault))
    return values if len(values) == len(given) else None


def _texts(document: Document, at: At, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Configurations of Kafka's are texts; YAML's numbers and truths are written as Kafka has them."""
    for name, value in given.items():
        if isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int | float):
            yield name, str(value)
        else:
            document.find((*at, name), f"{name} is a text or a number, not {type(value).__name__}")
