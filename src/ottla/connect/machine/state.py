"""The tables of the configs and the status topic: connectors, the sets of their tasks, their states. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.connect.machine.records import (
    ConfigsRecord,
    ConnectorConfig,
    ConnectorStatus,
    LoggerLevel,
    RestartWish,
    Status,
    StatusRecord,
    Target,
    TargetState,
    TaskConfig,
    TaskCount,
    TaskRestartWish,
    TasksCommit,
    TaskStatus,
    TopicInUse,
)

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """One connector as the configs topic has it."""

    name: str
    config: Config
    target: Target
    tasks: tuple[Config, ...]
    """The configurations of its tasks. A set counts once its commit is there."""
    complete: bool = True
    """False where the last commit names more tasks than there are records: its owner makes them again."""


class Configs:
    """The table of the configs topic."""

    def __init__(self) -> None:
        self.wishes: list[RestartWish | TaskRestartWish | LoggerLevel] = []
        """Wishes in their order. The worker takes them from here, and drops those from before its start."""
        self._configs: dict[str, Config] = {}
        self._targets: dict[str, Target] = {}
        self._written: dict[str, dict[int, Config]] = {}
        """Task records by connector, whether their commit came or not."""
        self._tasks: dict[str, tuple[Config, ...]] = {}
        self._incomplete: set[str] = set()
        self._rounds: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._unfenced: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The connectors, oldest first."""
        return list(self._configs)

    def get(self, name: str) -> ConnectorState | None:
        """The connector of a name."""
        config = self._configs.get(name)
        if config is None:
            return None
        target = self._targets.get(name, Target.STARTED)
        return ConnectorState(name, config, target, self._tasks.get(name, ()), name not in self._incomplete)

    def round(self, name: str) -> int:
        """The number of sets of tasks that this table has seen of a connector; it only grows."""
        return self._rounds.get(name, 0)

    def unfenced(self, name: str) -> int | None:
        """The number of tasks whose producers must be fenced before the present set may begin.

        None where all are fenced. A single task that follows a single task fences it itself, so that is 0.
        """
        if name not in self._unfenced:
            return None
        earlier = self._counts.get(name, 0)
        return 0 if earlier == 1 and len(self._tasks.get(name, ())) == 1 else earlier

    def apply(self, record: ConfigsRecord) -> None:
        """Take the next record of the topic.

        A connector of the same name may be made again: the number of tasks that are to be fenced outlives it.
        Task and commit records of deleted connectors stay in the topic for ever, and compaction may put a connector's
        record behind those of its tasks: so tasks are kept for names that are not known yet.
        """
        match record:
            case ConnectorConfig(name, None):
                for table in (self._configs, self._written, self._tasks):
                    table.pop(name, None)
                self._incomplete.discard(name)
            case ConnectorConfig(name, properties):
                assert properties is not None
                self._configs[name] = properties
            case TargetState(name, None):
                self._targets.pop(name, None)
            case TargetState(name, target):
                assert target is not None
                self._targets[name] = target
            case TaskConfig(name, task, properties):
                self._take_task(name, task, properties)
            case TasksCommit(name, tasks):
                self._commit(name, tasks)
            case TaskCount(name, tasks):
                self._counts[name] = tasks
                self._unfenced.discard(name)
            case RestartWish() | TaskRestartWish() | LoggerLevel():
                self.wishes.append(record)

    def _take_task(self, name: str, task: int, properties: Config | None) -> None:
        written = self._written.setdefault(name, {})
        if properties is None:
            written.pop(task, None)
        else:
            written[task] = properties

    def _commit(self, name: str, tasks: int) -> None:
        written = self._written.get(name, {})
        self._rounds[name] = self.round(name) + 1
        self._unfenced.add(name)
        if any(task not in written for task in range(tasks)):
            self._incomplete.add(name)
            return
        self._incomplete.discard(name)
        self._tasks[name] = tuple(written[task] for task in range(tasks))


class Statuses:
    """The table of the status topic."""

    def __init__(self) -> None:
        self.connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, None]] = {}

    def tasks(self, name: str) -> dict[int, Status]:
        """The statuses of a connector's tasks, by their number."""
        return dict(sorted(self._tasks.get(name, {}).items()))

    def all_tasks(self) -> list[tuple[str, int]]:
        """The tasks that have a status, by connector and number."""
        return [(name, number) for name, tasks in self._tasks.items() for number in tasks]

    def topics(self, name: str) -> list[str]:
        """The topics that a connector was seen to use."""
        return list(self._topics.get(name, {}))

    def all_topics(self) -> list[tuple[str, str]]:
        """The topics that connectors were seen to use, by connector."""
        return [(name, topic) for name, topics in self._topics.items() for topic in topics]

    def uses(self, name: str, topic: str) -> bool:
        """True if the connector was seen to use the topic."""
        return topic in self._topics.get(name, {})

    def apply(self, record: StatusRecord) -> None:
        """Take the next record of the topic."""
        match record:
            case ConnectorStatus(name, None):
                self.connectors.pop(name, None)
            case ConnectorStatus(name, status):
                assert status is not None
                self.connectors[name] = status
            case TaskStatus(name, task, None):
                self._tasks.get(name, {}).pop(task, None)
            case TaskStatus(name, task, status):
                assert status is not None
                self._tasks.setdefault(name, {})[task] = status
            case TopicInUse(name, topic, discovered_ms=None):
                self._topics.get(name, {}).pop(topic, None)
            case TopicInUse(name, topic):
                self._topics.setdefault(name, {})[topic] = None
