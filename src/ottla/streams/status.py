"""The state of an application: how far its sub-topologies are, rows of stores, records that were left out, lag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ottla.client import TopicPartition
from ottla.client.model import LATEST, OffsetAtTime
from ottla.metrics.metric import Sample
from ottla.streams.connection import ClusterConnection
from ottla.streams.counts import Counts, TaskId, samples
from ottla.streams.difference import shape
from ottla.streams.engine.task import Task
from ottla.streams.errors import TopologyError
from ottla.streams.graph import Topology
from ottla.streams.live import Ends
from ottla.streams.on_spark.notes import ApplicationNote, Notes, refuse
from ottla.streams.on_spark.places import open_files
from ottla.streams.queries import Answer, Query
from ottla.streams.state.files import Step
from ottla.streams.state.folder import Files, StateFolder
from ottla.streams.stores import Store

if TYPE_CHECKING:
    from ottla.client import Admin


@dataclass(slots=True)
class PartStatus:
    """One sub-topology over all its tasks; times and batches are the newest, and the oldest stream time."""

    number: int
    tasks: int
    batch: int = -1
    records: int = 0
    results: int = 0
    bytes: int = 0
    stream_time: int = -1
    oldest_stream_time: int = -1


@dataclass(slots=True)
class ApplicationStatus:
    """Everything that `ottla streams status` shows."""

    application_id: str
    sub_topologies: list[PartStatus] = field(default_factory=list)
    stores: dict[str, int] = field(default_factory=dict)
    """The rows of each store."""
    dropped: dict[str, int] = field(default_factory=dict)
    """The records that each node has left out: late ones, those without a key."""
    lag: dict[str, int] = field(default_factory=dict)
    """The records of each topic that are still to be read."""

    def to_json(self) -> dict[str, Any]:
        """The status as JSON holds it."""
        return asdict(self)


def state_status(application_id: str, state: str) -> ApplicationStatus | None:
    """The status by the state files of a run on Spark; None where there are none."""
    files = open_files(state)
    note = Notes(files).application()
    if note is None:
        return None
    stores: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    found = ApplicationStatus(note.application_id)
    parts = {number: PartStatus(number, tasks) for number, tasks in sorted(note.tasks.items())}
    for (number, _), (step, told, size) in _told(files, note).items():
        _add(parts[number], step.batch, told, size)
        stores.update(told["rows"])
        dropped.update(told["dropped"])
    found.sub_topologies = list(parts.values())
    found.stores, found.dropped = dict(sorted(stores.items())), dict(sorted(dropped.items()))
    return found


class SparkInstance:
    """A run on Spark as HTTP shows it: by its state files, and by the offsets of its group."""

    def __init__(self, application_id: str, state: str, where: ClusterConnection) -> None:
        self._application_id, self._state, self._where = application_id, state, where

    def status(self, ends: Ends) -> dict[str, Any]:
        """The status as `ottla streams status` has it, and the whole lag."""
        found = state_status(self._application_id, self._state) or ApplicationStatus(self._application_id)
        return {**found.to_json(), "application": self._application_id, "lag": sum(self._lags(ends).values())}

    def metrics(self, ends: Ends) -> list[Sample]:
        """The metrics that an instance without Spark has, but for those by topic."""
        files, counts, rows = open_files(self._state), Counts(), Counter[str]()
        note = Notes(files).application()
        tasks = {} if note is None else _told(files, note)
        for task, (step, told, _) in tasks.items():
            counts.commits = max(counts.commits, step.batch + 1)
            counts.processed[task] = told["records"]
            counts.dropped[task] = sum(told["dropped"].values())
            rows.update(told["rows"])
        return list(samples(counts, len(tasks), rows, self._lags(ends)))

    def ask(self, name: str, query: Callable[[Store], Query], ends: Ends) -> Answer:
        """No process has a whole store."""
        raise TopologyError(
            f"the store {name} is in the state files of a run on Spark: ask by `ottla streams query APP.py {name} "
            f"--application-id {self._application_id} --state {self._state}`"
        )

    def _lags(self, ends: Ends) -> dict[TopicPartition, int]:
        with self._where.admin() as admin:
            committed = admin.committed_offsets(self._application_id)
        now = ends(sorted(committed)) if committed else {}
        return {at: max(0, now[at] - one.offset) for at, one in committed.items()}


def _told(files: Files, note: ApplicationNote) -> dict[TaskId, tuple[Step, dict[str, Any], int]]:
    """The last step of each task that has run, its counters, and the bytes of its files."""
    every = [(part, partition) for part, tasks in sorted(note.tasks.items()) for partition in range(tasks)]
    found = {(part, at): StateFolder(files, f"{part}/{at}").told() for part, at in every}
    return {task: told for task, told in found.items() if told is not None}


def read_store(topology: Topology, name: str, tasks: int, *, application_id: str, state: str) -> list[Store]:
    """A store of each task as its state files have it; a batch that is at work may be among it."""
    files = open_files(state)
    note = Notes(files).application()
    if note is None or note.application_id != application_id:
        raise TopologyError(f"there is no state of {application_id} in {state}: name its checkpoint")
    refuse(note.changes(replace(note, shape=shape(topology))))
    part = note.shape.numbers[name]
    found: list[Store] = []
    for partition in range(tasks):
        task = Task(topology, sub_topologies=[part], shared={})
        StateFolder(files, f"{part}/{partition}").newest(task.stores, task.restore)
        found.append(task.stores[name])
    return found


def lag(admin: Admin, application_id: str) -> dict[str, int]:
    """The records of each topic that are behind the application's committed offsets."""
    committed = admin.committed_offsets(application_id)
    behind: Counter[str] = Counter()
    for partition, end in admin.list_offsets(dict.fromkeys(committed, LATEST)).items() if committed else ():
        if not isinstance(end, OffsetAtTime):
            raise end
        behind[partition.topic] += max(0, end.offset - committed[partition].offset)
    return dict(sorted(behind.items()))


def _add(part: PartStatus, batch: int, told: dict[str, Any], size: int) -> None:
    part.batch = max(part.batch, batch)
    part.records += told["records"]
    part.results += told["results"]
    part.bytes += size
    time = told["stream_time"]
    part.stream_time = max(part.stream_time, time)
    if time >= 0:
        part.oldest_stream_time = time if part.oldest_stream_time < 0 else min(part.oldest_stream_time, time)
