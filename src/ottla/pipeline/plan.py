"""The changes to a cluster, in an order in which they can be made. Pure; `apply.py` looks and does.

Nothing is deleted unless that is asked for, and then only what an earlier run of this pipeline has made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.formats.writer import WriterSchema
from ottla.kernel.acls import Acl
from ottla.pipeline.parts import PipelinePart


@dataclass(frozen=True, slots=True)
class TopicThere:
    """A topic that exists: its numbers, and the configurations that differ from the broker's defaults."""

    partitions: int
    replication: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster as it is. `schemas`: the latest of each subject; `connectors`: by name, None without a worker."""

    topics: Mapping[str, TopicThere] = field(default_factory=dict)
    schemas: Mapping[str, WriterSchema] = field(default_factory=dict)
    connectors: Mapping[str, Mapping[str, str]] | None = field(default_factory=dict)
    acls: frozenset[Acl] | None = frozenset()
    """None for a cluster that knows none."""


@dataclass(frozen=True, slots=True)
class PipelineChange:
    """One step. `verb`: create, grow, configure, register, update, delete; `detail` is for the reader."""

    verb: str
    section: str
    name: str
    detail: str
    value: Any = None

    def __str__(self) -> str:
        return f"{self.verb:<9} {self.section:<9} {self.name}" + (f"  ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """The changes, and sentences about what is declared and cannot be made so."""

    changes: tuple[PipelineChange, ...]
    refusals: tuple[str, ...]
    left: tuple[PipelineChange, ...]
    """Deletions that were not asked for."""


def plan(
    topics: list[PipelinePart],
    schemas: Mapping[str, WriterSchema],
    connectors: list[PipelinePart],
    seen: Seen,
    made: Mapping[str, list[str]],
    *,
    acls: Sequence[Acl] = (),
    prune: bool = False,
) -> PipelinePlan:
    """Compare. `schemas` are declared, by subject; `made` are names by section that earlier runs have made."""
    changes: list[PipelineChange] = []
    refusals: list[str] = []
    for part in topics:
        _topic(part, seen.topics.get(part.name), changes, refusals)
    if acls and seen.acls is None:
        refusals.append("acls are declared, and the cluster knows none: its brokers have no authorizer.class.name")
    changes += [
        PipelineChange("create", "acl", str(acl), "", acl)
        for acl in dict.fromkeys(acls)
        if acl not in (seen.acls or ())
    ]
    for subject, schema in schemas.items():
        there = seen.schemas.get(subject)
        if there is None or (there.kind, there.text.split()) != (schema.kind, schema.text.split()):
            changes.append(PipelineChange("register", "schema", subject, schema.kind.lower(), schema))
    for part in connectors:
        _connector(part, seen.connectors, changes)
    declared = {"topic": {part.name for part in topics}, "connector": {part.name for part in connectors}}
    there_now = {"topic": set(seen.topics), "connector": set(seen.connectors or ())}
    gone = [
        PipelineChange("delete", section, name, "it is not in the file, and an earlier run has made it")
        for section in ("connector", "topic")
        for name in made.get(section, ())
        if name not in declared[section] and name in there_now[section]
    ]
    gone += [
        PipelineChange("delete", "acl", str(acl), "it is not in the file, and an earlier run has made it", acl)
        for acl in sorted(seen.acls or ())
        if str(acl) in made.get("acl", ()) and acl not in acls
    ]
    return PipelinePlan(tuple(changes + (gone if prune else [])), tuple(refusals), () if prune else tuple(gone))


def _topic(part: PipelinePart, there: TopicThere | None, changes: list[PipelineChange], refusals: list[str]) -> None:
    partitions, replication = part.values.get("partitions"), part.values.get("replication")
    configs: Mapping[str, str] = part.values["config"]
    if there is None:
        words = [f"{partitions} partitions"] if partitions else []
        words += [f"{replication} replicas"] if replication else []
        words += [f"{name}={value}" for name, value in configs.items()]
        value = (partitions or -1, replication or -1, configs)
        changes.append(PipelineChange("create", "topic", part.name, ", ".join(words), value))
        return
    if partitions and partitions > there.partitions:
        detail = f"from {there.partitions} to {partitions} partitions; keys move to others"
        changes.append(PipelineChange("grow", "topic", part.name, detail, partitions))
    elif partitions and partitions < there.partitions:
        refusals.append(f"{part.name} has {there.partitions} partitions, and {partitions} are declared: none can go")
    if replication and replication != there.replication:
        refusals.append(
            f"{part.name} has {there.replication} replicas, and {replication} are declared: "
            f"`ottla cluster reassign` changes that"
        )
    other = {name: value for name, value in configs.items() if there.configs.get(name) != value}
    if other:
        detail = ", ".join(
            f"{name}={value}, was {there.configs.get(name, 'the default')}" for name, value in other.items()
        )
        changes.append(PipelineChange("configure", "topic", part.name, detail, other))


def _connector(
    part: PipelinePart, there: Mapping[str, Mapping[str, str]] | None, changes: list[PipelineChange]
) -> None:
    config = {**part.values, "name": part.name}
    before = (there or {}).get(part.name)
    if before is None:
        java_class = part.values.get("connector.class", "")
        changes.append(PipelineChange("create", "connector", part.name, java_class.rpartition(".")[2], config))
    elif dict(before) != config:
        names = sorted(name for name in {*before, *config} if before.get(name) != config.get(name))
        changes.append(PipelineChange("update", "connector", part.name, ", ".join(names), config))
