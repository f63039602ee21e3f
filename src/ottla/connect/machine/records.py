"""The records of Connect's configs and status topics, byte for byte as Kafka's workers write them. Pure.

Keys are text, values are JSON without blanks and without a schema. A connector's name may hold dashes and colons, so
keys are cut from the right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.jobs.json_records import compact_json, json_object

Pair = tuple[bytes, bytes | None]
"""Key and value; None deletes the key."""
NO_OP: Pair = (b"ottla-nothing", b"{}")
"""A record that changes nothing. Kafka's workers log such keys and go on."""


class UnreadableConnectRecord(Exception):
    """A record whose key or value is none of Connect's; the message says why."""


class Target(Enum):
    """The state that people want a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """`connector-NAME`; no properties: the connector is deleted."""

    name: str
    properties: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """`task-NAME-I`: one of a set that counts once its commit is there."""

    name: str
    task: int
    properties: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TasksCommit:
    """`commit-NAME`: the set of so many tasks is complete."""

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TargetState:
    """`target-state-NAME`; None with the connector's deletion."""

    name: str
    target: Target | None


@dataclass(frozen=True, slots=True)
class RestartWish:
    """`restart-connector-NAME`: restart the connector, and its tasks as asked."""

    name: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class TaskRestartWish:
    """`ottla-restart-task-NAME-I`: ours, where Kafka's workers call each other over HTTP."""

    name: str
    task: int


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """`logger-cluster-NAMESPACE`: a level for all workers."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class TaskCount:
    """`tasks-fencing-NAME`: the producers of all earlier sets of tasks are fenced; the next set may have so many."""

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class Foreign:
    """A record of Kafka's that has no meaning here, such as a session key."""

    key: str


ConfigsRecord = (
    ConnectorConfig
    | TaskConfig
    | TasksCommit
    | TaskCount
    | TargetState
    | RestartWish
    | TaskRestartWish
    | LoggerLevel
    | Foreign
)


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a connector or of a task, as its worker reports it."""

    state: str
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    phase: str | None = None
    """The phase of a task's work, where it has one. Kafka's workers have none, and pass the field over."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """`status-connector-NAME`."""

    name: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """`status-task-NAME-I`."""

    name: str
    task: int
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicInUse:
    """`status-topic-TOPIC:connector-NAME`: the connector reads or writes the topic."""

    name: str
    topic: str
    task: int = 0
    discovered_ms: int | None = 0
    """None: the topic is no longer counted as used."""


StatusRecord = ConnectorStatus | TaskStatus | TopicInUse


def configs_pair(record: ConfigsRecord) -> Pair:
    """A record as the configs topic has it."""
    match record:
        case ConnectorConfig(name, properties):
            return _pair(f"connector-{name}", None if properties is None else {"properties": dict(properties)})
        case TaskConfig(name, task, properties):
            return _pair(f"task-{name}-{task}", None if properties is None else {"properties": dict(properties)})
        case TasksCommit(name, tasks):
            return _pair(f"commit-{name}", {"tasks": tasks})
        case TaskCount(name, tasks):
            return _pair(f"tasks-fencing-{name}", {"task-count": tasks})
        case TargetState(name, target):
            return _pair(f"target-state-{name}", None if target is None else _target_fields(target))
        case RestartWish(name, include_tasks, only_failed):
            fields = {"include-tasks": include_tasks, "only-failed": only_failed}
            return _pair(f"restart-connector-{name}", fields)
        case TaskRestartWish(name, task):
            return _pair(f"ottla-restart-task-{name}-{task}", {})
        case LoggerLevel(namespace, level):
            return _pair(f"logger-cluster-{namespace}", {"level": level})
    raise ValueError(f"a record of Kafka's is not written here: {record}")


def _target_fields(target: Target) -> dict[str, str]:
    """Workers older than Apache Kafka 3.5 know no STOPPED, and read `state`."""
    old = Target.PAUSED if target is Target.STOPPED else target
    return {"state": old.value, "state.v2": target.value}


def _pair(key: str, value: object) -> Pair:
    return key.encode(), None if value is None else compact_json(value)


def status_pair(record: StatusRecord) -> Pair:
    """A record as the status topic has it."""
    match record:
        case ConnectorStatus(name, status):
            return _pair(f"status-connector-{name}", _status_fields(status))
        case TaskStatus(name, task, status):
            return _pair(f"status-task-{name}-{task}", _status_fields(status))
    name, topic, at_ms = record.name, record.topic, record.discovered_ms
    use = {"name": topic, "connector": name, "task": record.task, "discoverTimestamp": at_ms}
    return _pair(f"status-topic-{topic}:connector-{name}", None if at_ms is None else {"topic": use})


def _status_fields(status: Status | None) -> dict[str, object] | None:
    if status is None:
        return None
    return {
        "state": status.state, "trace": status.trace, "worker_id": status.worker_id, "generation": status.generation,
        "version": status.version, **({} if status.phase is None else {"phase": status.phase}),
    }  # fmt: skip


def read_configs(key: bytes, value: bytes | None) -> ConfigsRecord:
    """A record of the configs topic; UnreadableConnectRecord if it is none."""
    name = _text(key)
    fields = _fields(name, value)
    if name.startswith("connector-"):
        return ConnectorConfig(name[10:], _properties(name, fields))
    if name.startswith("target-state-"):
        return TargetState(name[13:], None if fields is None else _target(name, fields))
    if name.startswith("commit-"):
        return TasksCommit(name[7:], 0 if fields is None else _number(name, fields, "tasks"))
    if name.startswith("tasks-fencing-") and fields is not None:
        return TaskCount(name[14:], _number(name, fields, "task-count"))
    if task := re.fullmatch(r"task-(.+)-(\d+)", name, re.DOTALL):
        return TaskConfig(task[1], int(task[2]), _properties(name, fields))
    if task := re.fullmatch(r"ottla-restart-task-(.+)-(\d+)", name, re.DOTALL):
        return TaskRestartWish(task[1], int(task[2]))
    if name.startswith("restart-connector-") and fields is not None:
        return RestartWish(name[18:], bool(fields.get("include-tasks")), bool(fields.get("only-failed")))
    if name.startswith("logger-cluster-") and fields is not None:
        return LoggerLevel(name[15:], str(fields.get("level")))
    if name.startswith(("session-key", "tasks-fencing-", "restart-connector-", "logger-cluster-", "ottla-nothing")):
        return Foreign(name)
    raise UnreadableConnectRecord(f"the key {name!r} is none of Connect's configs topic")


def read_status(key: bytes, value: bytes | None) -> StatusRecord:
    """A record of the status topic; UnreadableConnectRecord if it is none."""
    name = _text(key)
    fields = _fields(name, value)
    if name.startswith("status-connector-"):
        return ConnectorStatus(name[17:], _status(name, fields))
    if task := re.fullmatch(r"status-task-(.+)-(\d+)", name, re.DOTALL):
        return TaskStatus(task[1], int(task[2]), _status(name, fields))
    if use := re.fullmatch(r"status-topic-([^:]+):connector-(.+)", name, re.DOTALL):
        about = None if fields is None else fields.get("topic")
        if not isinstance(about, dict):
            return TopicInUse(use[2], use[1], discovered_ms=None)
        at_ms, number = _number(name, about, "discoverTimestamp"), _number(name, about, "task")
        return TopicInUse(use[2], use[1], number, at_ms)
    raise UnreadableConnectRecord(f"the key {name!r} is none of Connect's status topic")


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as fault:
        raise UnreadableConnectRecord(f"the key {key!r} is not text in UTF-8") from fault


def _fields(key: str, value: bytes | None) -> dict[str, Any] | None:
    try:
        return None if value is None else json_object(value)
    except ValueError as fault:
        raise UnreadableConnectRecord(f"the value of {key!r} is {fault}") from fault


def _properties(key: str, fields: dict[str, Any] | None) -> dict[str, str] | None:
    if fields is None:
        return None
    properties = fields.get("properties")
    if not isinstance(properties, dict):
        raise UnreadableConnectRecord(f"the value of {key!r} has no properties")
    return properties


def _number(key: str, fields: dict[str, Any], name: str) -> int:
    number = fields.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UnreadableConnectRecord(f"{name} of {key!r} is {number!r}, not a number")
    return number


def _target(key: str, fields: dict[str, Any]) -> Target:
    wanted = fields.get("state.v2", fields.get("state"))
    try:
        return Target(wanted)
    except ValueError:
        raise UnreadableConnectRecord(f"the state of {key!r} is {wanted!r}") from None


def _status(key: str, fields: dict[str, Any] | None) -> Status | None:
    if fields is None:
        return None
    state, worker = fields.get("state"), fields.get("worker_id")
    if not isinstance(state, str) or not isinstance(worker, str):
        raise UnreadableConnectRecord(f"the status of {key!r} has no state and worker_id")
    generation = _number(key, fields, "generation")
    return Status(state, worker, generation, fields.get("trace"), fields.get("version"), fields.get("phase"))
