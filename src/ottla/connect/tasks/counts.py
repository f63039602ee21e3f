"""The counts of one task, and the metrics of a worker by the names that Kafka gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.jobs.running import job_samples
from ottla.jobs.states import JobStatus
from ottla.metrics.metric import Metric, Sample

_TASK: Final = ("connector", "task")


def _counter(name: str, text: str) -> Metric:
    return Metric(f"kafka_connect_{name}", "counter", text, _TASK)


_OF_SOURCES: Final = {
    "polled": _counter("source_task_source_record_poll_total", "Records that the task has read."),
    "written": _counter("source_task_source_record_write_total", "Records of the task that topics have acknowledged."),
}
_OF_SINKS: Final = {
    "read": _counter("sink_task_sink_record_read_total", "Records that the task has read from topics."),
    "sent": _counter("sink_task_sink_record_send_total", "Records that the task has put to the other side."),
}
_OF_ALL: Final = {
    "commits": _counter("connector_task_offset_commit_total", "Commits of offsets that succeeded."),
    "skipped": _counter("task_error_total_records_skipped", "Records that were refused, and left out."),
    "retries": _counter("task_error_total_retries", "Further attempts of a step that may succeed later."),
    "letters": _counter("task_error_deadletterqueue_produce_requests", "Records sent to the topic of dead letters."),
}
_CONNECTORS: Final = Metric("kafka_connect_worker_connector_count", "gauge", "Connectors that run in this worker.")
_TASKS: Final = Metric("kafka_connect_worker_task_count", "gauge", "Tasks that run in this worker.")


@dataclass(slots=True)
class TaskCounts:
    """The counts of one task, over all its restarts on this worker."""

    polled: int = 0
    written: int = 0
    read: int = 0
    sent: int = 0
    commits: int = 0
    skipped: int = 0
    retries: int = 0
    letters: int = 0

    def add(self, more: TaskCounts) -> None:
        """Count what was done for the task elsewhere."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(more, name))


@dataclass(frozen=True, slots=True)
class Measured:
    """One task with its counts and its state."""

    connector: str
    task: int
    kind: str
    counts: TaskCounts
    status: JobStatus


def samples(connectors: int, tasks: Sequence[Measured]) -> Iterator[Sample]:
    """The metrics of a worker."""
    yield Sample(_CONNECTORS, (), connectors)
    yield Sample(_TASKS, (), len(tasks))
    for each in tasks:
        for field, metric in (_OF_SOURCES if each.kind == "source" else _OF_SINKS).items():
            yield Sample(metric, (each.connector, str(each.task)), getattr(each.counts, field))
        for field, metric in _OF_ALL.items():
            yield Sample(metric, (each.connector, str(each.task)), getattr(each.counts, field))
        yield from job_samples(f"{each.connector}-{each.task}", each.status)
