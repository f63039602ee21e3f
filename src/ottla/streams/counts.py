"""The counts of a running instance, and its metrics by the names that Kafka Streams gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client import TopicPartition
from ottla.metrics.metric import Metric, Sample
from ottla.streams.engine.task import Results

TaskId = tuple[int, int]
"""A sub-topology and a partition."""
_TASK: Final = ("task_id",)
_PROCESSED: Final = Metric(
    "kafka_streams_stream_task_process_total", "counter", "Records that the task has processed and committed.", _TASK
)
_DROPPED: Final = Metric(
    "kafka_streams_stream_task_dropped_records_total", "counter", "Records that nodes of the task have left out.", _TASK
)
_CONSUMED: Final = Metric(
    "kafka_streams_stream_topic_records_consumed_total", "counter", "Records read of the topic.", ("topic",)
)
_PRODUCED: Final = Metric(
    "kafka_streams_stream_topic_records_produced_total", "counter", "Results written to the topic.", ("topic",)
)
_COMMITS: Final = Metric("kafka_streams_stream_thread_commit_total", "counter", "Batches that were committed.")
_TASKS: Final = Metric("kafka_streams_stream_thread_task_count", "gauge", "Tasks of this instance.")
_RUNNING: Final = Metric("kafka_streams_client_running", "gauge", "1 while the instance has tasks, else 0.")
_ROWS: Final = Metric(
    "kafka_streams_stream_state_num_keys", "gauge", "Rows of the store in this instance's tasks.", ("store",)
)
_LAG: Final = Metric(
    "kafka_consumer_consumer_fetch_manager_records_lag", "gauge",
    "Offsets between what the instance has processed and the end of the partition.", ("topic", "partition"),
)  # fmt: skip
_FAILED: Final = Metric(
    "ottla_streams_failed_records_total", "counter", "Records that failed and were left out.", ("node", "stage")
)


@dataclass(slots=True)
class Counts:
    """Counts of what was committed since the run began, over all changes of the assignment."""

    commits: int = 0
    processed: Counter[TaskId] = field(default_factory=Counter)
    dropped: Counter[TaskId] = field(default_factory=Counter)
    consumed: Counter[str] = field(default_factory=Counter)
    produced: Counter[str] = field(default_factory=Counter)
    by_node: Counter[str] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def committed(self, consumed: Mapping[tuple[TaskId, str], int], made: Mapping[TaskId, Results]) -> None:
        """Add a batch: the records read by task and topic, and the results of each task."""
        self.commits += 1
        for (task, topic), count in consumed.items():
            self.processed[task] += count
            self.consumed[topic] += count
        for task, results in made.items():
            self.produced.update(output.topic for output in results.outputs)
            self.by_node.update(results.dropped)
            self.failed.update((fault.node, fault.stage) for fault in results.faults)
            self.dropped[task] += sum(results.dropped.values()) + len(results.faults)


def samples(
    counts: Counts, tasks: int, rows: Mapping[str, int], lags: Mapping[TopicPartition, int]
) -> Iterator[Sample]:
    """The metrics of an instance."""
    yield Sample(_RUNNING, (), int(tasks > 0))
    yield Sample(_TASKS, (), tasks)
    yield Sample(_COMMITS, (), counts.commits)
    for task, count in sorted(counts.processed.items()):
        yield Sample(_PROCESSED, (f"{task[0]}_{task[1]}",), count)
        yield Sample(_DROPPED, (f"{task[0]}_{task[1]}",), counts.dropped[task])
    for metric, by_topic in ((_CONSUMED, counts.consumed), (_PRODUCED, counts.produced)):
        yield from (Sample(metric, (topic,), count) for topic, count in sorted(by_topic.items()))
    yield from (Sample(_ROWS, (store,), count) for store, count in rows.items())
    yield from (Sample(_LAG, (at.topic, str(at.partition)), lag) for at, lag in sorted(lags.items()))
    yield from (Sample(_FAILED, at, count) for at, count in sorted(counts.failed.items()))
