"""Asks an application's stores where no instance is asked: from its changelogs, with the lag of its group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ottla.client import Admin, TopicPartition
from ottla.client.model import EARLIEST, LATEST, IsolationLevel, OffsetAtTime
from ottla.streams.changelog import from_record
from ottla.streams.connection import ClusterConnection, connection
from ottla.streams.errors import TopologyError
from ottla.streams.graph import Topology, global_sources
from ottla.streams.layout import TaskLayout, layout
from ottla.streams.naming import nearest
from ottla.streams.patterns import bound
from ottla.streams.queries import Age, Answer, Query, answer, checked
from ottla.streams.stores import Store, StoreMaker

StateReader = Callable[[Topology, str, int], list[Store]]
"""Reads a store of so many tasks from the state files of a run on Spark."""
_POLL_MS = 200
COUNTED = 1_000
"""A lag of so many offsets or fewer is counted record by record."""


def asked(
    topology: Topology, name: str, query: Query | Callable[[Store], Query], *, application_id: str,
    where: ClusterConnection, read_state: StateReader | None = None,
) -> Answer:  # fmt: skip
    """The answer of what is committed, whether or not the application runs; `read_state` if it runs on Spark."""
    kind = checked(topology, name)
    with where.admin() as admin:
        topics = admin.list_topics()
        topology = bound(topology, topics)
        if missing := [topic for topic in topology.topics() if topic not in topics]:
            raise TopologyError(f"the topic {missing[0]} does not exist: has the application run on this cluster?")
        plan = layout(topology, application_id, {topic: len(topics[topic].partitions) for topic in topology.topics()})
        shared = global_sources(topology.nodes).get(name)
        topic = shared or plan.changelog(name)
        if read_state is not None and shared is None:
            count = plan.changelogs[name]
        elif topic not in topics:
            raise TopologyError(f"the topic {topic} does not exist: has {application_id} run on this cluster?")
        else:
            count = len(topics[topic].partitions)
        age = _age(admin, where, plan, {each: len(topics[each].partitions) for each in plan.read() if each in topics})
    if read_state is not None and shared is None:
        stores = read_state(topology, name, count)
    else:
        stores = _read(where, topic, count, topology.stores[name])
    wanted = query(kind) if callable(query) else query
    return answer(name, list(enumerate(stores)), wanted, count, age)


def query(
    topology: Topology,
    store: str,
    *,
    application_id: str,
    bootstrap: str | Sequence[str] = "localhost:9092",
    checkpoint: str | None = None,
    state: str | None = None,
    kafka: Mapping[str, str] | None = None,
    **asked_for: Any,
) -> Answer:
    """The rows of a store, as the application has committed them: it need not run.

    Of an application on Spark name the `checkpoint`, or the place of its `state`. `kafka`: properties of the client.

    `asked_for` are those of `Query`: key, first, last, prefix, since_ms, until_ms, limit. The store's changelog is read
    whole. `age.lag` is the number of records of the input that the application had not processed. Raises TopologyError
    for what the store cannot be asked, `ApiError` and `ClientError` of the cluster.
    """
    names = {field.name for field in fields(Query)}
    for name in asked_for:
        if name not in names:
            raise TypeError(f"query() has no argument {name!r}{nearest(name, names)}")
    reader = None
    if checkpoint is not None or state is not None:
        reader = state_reader(application_id, checkpoint, state)
    wanted = Query(**asked_for)
    where = connection(bootstrap, kafka)
    return asked(topology, store, wanted, application_id=application_id, where=where, read_state=reader)


def state_reader(application_id: str, checkpoint: str | None, state: str | None) -> StateReader:
    """The reader of the state files at these places, as `run` has them."""
    from ottla.streams.on_spark.places import state_place
    from ottla.streams.status import read_store

    place = state_place(application_id, checkpoint, state)
    return lambda topology, name, tasks: read_store(topology, name, tasks, application_id=application_id, state=place)


def _age(admin: Admin, where: ClusterConnection, plan: TaskLayout, counts: dict[str, int]) -> Age:
    """The lag of the group. It is taken before the changelog is read, so the answer may know more but never less."""
    partitions = [TopicPartition(topic, index) for topic, count in counts.items() for index in range(count)]
    done = {at: one.offset for at, one in admin.committed_offsets(plan.application_id, partitions).items()}
    ends = {at: one.offset for at, one in _offsets(admin, partitions, LATEST).items()}
    begins = _offsets(admin, [each for each in partitions if each not in done], EARLIEST)
    done |= {at: one.offset for at, one in begins.items()}
    lags = {at: ends[at] - done[at] for at in partitions if ends[at] > done[at]}
    near = [at for at, lag in lags.items() if lag <= COUNTED]
    exact = _records(where, {at: done[at] for at in near}, ends) if near else 0
    return Age(exact + sum(lag for lag in lags.values() if lag > COUNTED), int(time.time() * 1000))


def _records(where: ClusterConnection, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> int:
    """The records between offsets: the ends of transactions have offsets too, and are none."""
    count = 0
    with where.reader() as consumer:
        consumer.assign(list(begins))
        for partition, offset in begins.items():
            consumer.seek(partition, offset)
        while any(consumer.position(partition) < ends[partition] for partition in begins):
            records = consumer.poll(_POLL_MS)
            count += sum(record.offset < ends[TopicPartition(record.topic, record.partition)] for record in records)
    return count


def _offsets(admin: Admin, partitions: Sequence[TopicPartition], spec: int) -> dict[TopicPartition, OffsetAtTime]:
    return admin.cluster.list_offsets(sorted(partitions), spec, IsolationLevel.READ_COMMITTED) if partitions else {}


def _read(where: ClusterConnection, topic: str, count: int, make: StoreMaker) -> list[Store]:
    """The store of each partition, from what is committed in its changelog now."""
    stores = [make() for _ in range(count)]
    with where.reader() as consumer:
        partitions = [TopicPartition(topic, index) for index in range(count)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.cluster.list_offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
        while any(consumer.position(partition) < end.offset for partition, end in ends.items()):
            for record in consumer.poll(_POLL_MS):
                if record.key is not None:
                    store = stores[record.partition]
                    store.restore(*from_record(store, record.key, record.value, record.timestamp))
    for store in stores:
        store.changes.take()
    return stores
