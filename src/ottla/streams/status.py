"""The state of an application: how far its sub-topologies are, rows of stores, records that were left out, lag."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ottla.client.model import LATEST, OffsetAtTime
from ottla.streams.difference import shape
from ottla.streams.engine.task import Task
from ottla.streams.errors import TopologyError
from ottla.streams.graph import Topology
from ottla.streams.on_spark.notes import Notes, refuse
from ottla.streams.on_spark.places import open_files
from ottla.streams.state.folder import StateFolder
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
    for number, tasks in sorted(note.tasks.items()):
        part = PartStatus(number, tasks)
        for partition in range(tasks):
            told = StateFolder(files, f"{number}/{partition}").told()
            if told is not None:
                _add(part, told[0].batch, told[1], told[2])
                stores.update(told[1]["rows"])
                dropped.update(told[1]["dropped"])
        found.sub_topologies.append(part)
    found.stores, found.dropped = dict(sorted(stores.items())), dict(sorted(dropped.items()))
    return found


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
