"""Looks at a cluster, a registry and a worker of Connect, and carries out a plan's changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ottla.client import Admin, NewTopic
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.registry_client import RegistryClient, RegistryRefusal
from ottla.config.resolve import ConfigLayer
from ottla.connect.commands.asking import CallFailed, ask, escaped
from ottla.formats.faults import UnknownSchema
from ottla.formats.writer import WriterSchema
from ottla.kernel.acls import Acl, AclFilter
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.pipeline.check import schema_of
from ottla.pipeline.parts import Pipeline
from ottla.pipeline.plan import PipelineChange, PipelinePlan, Seen, TopicThere, plan
from ottla.pipeline.rights import acls_of

_NO_SUBJECT = (40401, 40402)


class NotApplied(Exception):
    """A change that could not be made; the sentence says which and why."""


class Memory:
    """Names that earlier runs of a pipeline have made, by section, in a file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "made.json"

    def read(self) -> dict[str, list[str]]:
        if not self._path.exists():
            return {}
        found: dict[str, list[str]] = json.loads(self._path.read_text(encoding="utf-8"))
        return found

    def note(self, change: PipelineChange) -> None:
        """Remember what was made, forget what was deleted. A new file takes the old one's place at once."""
        made = self.read()
        names = set(made.get(change.section, ()))
        if change.verb == "create":
            names.add(change.name)
        elif change.verb == "delete":
            names.discard(change.name)
        made[change.section] = sorted(names)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self._path)


def declared_schemas(pipeline: Pipeline) -> dict[str, WriterSchema]:
    """The schemas of topics by subject, as Confluent's TopicNameStrategy names them."""
    found = {}
    for topic in pipeline.of("topics"):
        for side in ("key", "value"):
            schema = schema_of(pipeline, topic, side)
            if schema is not None:
                found[f"{topic.name}-{side}"] = schema
    return found


def planned(
    pipeline: Pipeline,
    admin: Admin,
    registry: RegistryClient | None,
    connect: str | None,
    memory: Memory,
    *,
    prune: bool,
) -> PipelinePlan:
    """The plan for what is there now. Without a worker of Connect all connectors are to be made."""
    schemas = declared_schemas(pipeline)
    made = memory.read()
    acls = [acl for part in pipeline.of("acls") for acl in acls_of(part)]
    names = {part.name for part in pipeline.of("topics")} | set(made.get("topic", ()))
    seen = Seen(
        _topics(admin, names),
        {} if registry is None else _schemas(registry, schemas),
        None if connect is None else _connectors(connect),
        _acls(admin) if acls or made.get("acl") else frozenset(),
    )
    found = plan(pipeline.of("topics"), schemas, pipeline.of("connectors"), seen, made, acls=acls, prune=prune)
    refusals = list(found.refusals)
    if registry is None and schemas:
        refusals.append("topics have schemas, and cluster names no registry: give registry, or start: true")
    elif registry is not None:
        refusals += _incompatible(registry, found.changes)
    return PipelinePlan(found.changes, tuple(refusals), found.left)


def _acls(admin: Admin) -> frozenset[Acl] | None:
    """All that there are; None where the cluster knows none."""
    try:
        return frozenset(admin.describe_acls())
    except ApiError as fault:
        if fault.code is ErrorCode.SECURITY_DISABLED:
            return None
        raise


def _topics(admin: Admin, names: set[str]) -> dict[str, TopicThere]:
    there = {name: view for name, view in admin.list_topics().items() if name in names}
    resources = [Resource(ResourceType.TOPIC, name) for name in there]
    configs = admin.describe_configs(resources) if resources else {}
    found = {}
    for name, view in there.items():
        told = configs[Resource(ResourceType.TOPIC, name)]
        if isinstance(told, Exception):
            raise told
        own = {each.name: each.value or "" for each in told if each.config_source == ConfigLayer.DYNAMIC_TOPIC_CONFIG}
        replicas = len(next(iter(view.partitions.values())).replicas)
        found[name] = TopicThere(len(view.partitions), replicas, own)
    return found


def _schemas(registry: RegistryClient, declared: Mapping[str, WriterSchema]) -> dict[str, WriterSchema]:
    found = {}
    for subject in declared:
        try:
            found[subject] = registry.latest(subject).schema
        except UnknownSchema:
            continue
    return found


def _incompatible(registry: RegistryClient, changes: tuple[PipelineChange, ...]) -> list[str]:
    """Sentences about schemas that the registry would refuse."""
    refusals = []
    for change in changes:
        if change.verb != "register":
            continue
        body = {"schema": change.value.text, "schemaType": change.value.kind}
        path = f"/compatibility/subjects/{escaped(change.name)}/versions/latest?verbose=true"
        try:
            answer = registry.ask("POST", path, body)
        except RegistryRefusal as refusal:
            if refusal.code not in _NO_SUBJECT:
                refusals.append(f"the schema of {change.name}: {refusal}")
            continue
        if not answer.get("is_compatible", True):
            why = "; ".join(str(message) for message in answer.get("messages", [])[:3])
            refusals.append(f"the schema of {change.name} does not fit the version before it: {why}")
    return refusals


def _connectors(url: str) -> dict[str, dict[str, str]]:
    answer: dict[str, Any] = ask(url, "GET", "/connectors?expand=info")
    return {name: each["info"]["config"] for name, each in answer.items()}


def carried_out(
    changes: tuple[PipelineChange, ...],
    admin: Admin,
    registry: RegistryClient | None,
    connect: str | None,
    memory: Memory,
    say: Callable[[str], None],
) -> None:
    """Make the changes in their order; NotApplied for the first that cannot be made. A second run goes on there."""
    for change in changes:
        try:
            _carry_out(change, admin, registry, connect)
        except (CallFailed, ValueError) as fault:
            raise NotApplied(f"{change}: {fault}") from None
        memory.note(change)
        say(str(change))


def _carry_out(change: PipelineChange, admin: Admin, registry: RegistryClient | None, connect: str | None) -> None:
    topic = Resource(ResourceType.TOPIC, change.name)
    match change.verb, change.section:
        case "create", "topic":
            partitions, replication, configs = change.value
            _each_done(admin.create_topics([NewTopic(change.name, partitions, replication, configs)]))
        case "grow", "topic":
            _each_done(admin.create_partitions({change.name: change.value}))
        case "configure", "topic":
            edits = [(name, ConfigOperation.SET, value) for name, value in change.value.items()]
            _each_done(admin.alter_configs({topic: edits}))
        case "delete", "topic":
            _each_done(admin.delete_topics([change.name]))
        case "create", "acl":
            admin.create_acls([change.value])
        case "delete", "acl":
            admin.delete_acls([AclFilter(*change.value)])
        case "register", "schema" if registry is not None:
            registry.register(change.name, change.value)
        case "create" | "update", "connector" if connect is not None:
            ask(connect, "PUT", f"/connectors/{escaped(change.name)}/config", change.value)
        case "delete", "connector" if connect is not None:
            ask(connect, "DELETE", f"/connectors/{escaped(change.name)}")
        case _:
            raise ValueError("there is neither a registry nor a worker of Connect for it")


def _each_done(results: Mapping[Any, Any]) -> None:
    for result in results.values():
        if isinstance(result, Exception):
            raise result
