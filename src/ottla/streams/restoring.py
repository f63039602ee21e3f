"""Brings the stores of tasks up to what is committed in their changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client import TopicPartition
from ottla.client.model import LATEST
from ottla.streams.changelog import from_record
from ottla.streams.connection import ClusterConnection
from ottla.streams.engine.task import Task
from ottla.streams.layout import TIMES, TaskLayout
from ottla.streams.serdes import INT64
from ottla.streams.stores import EntryKey

TaskId = tuple[int, int]
"""A sub-topology and a partition."""
Entries = dict[TaskId, dict[str, dict[EntryKey, Any]]]
_POLL_MS = 200


def restore(where: ClusterConnection, plan: TaskLayout, tasks: Mapping[TaskId, Task]) -> None:
    """Hand the entries in the changelogs to these tasks, some at a time.

    They are read up to their very ends: behind an open transaction of an instance that died there may be committed
    entries of the one that followed, so that one waits until the cluster has ended it.
    """
    wanted: dict[TopicPartition, tuple[str, TaskId]] = {}
    for (part, partition), task in tasks.items():
        for store in task.stores:
            wanted[TopicPartition(plan.changelog(store), partition)] = store, (part, partition)
        wanted[TopicPartition(plan.changelog(TIMES), partition)] = TIMES, (part, partition)
    with where.reader() as consumer:
        consumer.assign(list(wanted))
        consumer.seek_to_beginning()
        ends = consumer.cluster.list_offsets(sorted(wanted), LATEST)
        while any(consumer.position(partition) < end.offset for partition, end in ends.items()):
            found: Entries = {}
            for record in consumer.poll(_POLL_MS):
                store, task_id = wanted[TopicPartition(record.topic, record.partition)]
                assert record.key is not None
                if store != TIMES:
                    kept = tasks[task_id].stores[store]
                    key, entry = from_record(kept, record.key, record.value, record.timestamp)
                    found.setdefault(task_id, {}).setdefault(store, {})[key] = entry
                    continue
                number, _, name = record.key.decode().partition(" ")
                owner = int(number), record.partition
                if owner in tasks:
                    found.setdefault(owner, {}).setdefault("", {})[(name,)] = INT64.from_bytes(record.value)
            for task_id, entries in found.items():
                tasks[task_id].restore(entries)
