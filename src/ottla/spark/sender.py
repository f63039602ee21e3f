"""The two ways in which batches of rows leave a task: by an idempotent producer, or in a transaction."""

from __future__ import annotations

import os
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from ottla.client.blocking.cluster import Cluster
from ottla.client.model import ProducerIdentity
from ottla.client.produce.transacting import Transactor
from ottla.kernel.ids import TopicPartition
from ottla.records.columns import EncodedBatch
from ottla.rows.kafka_settings import KafkaSettings


class RowSender(Protocol):
    """A producer id with the state of its sequences, and a connection to the cluster."""

    turn: int
    """The partition for the next rows that have no key."""
    seen: set[str]
    """The topics whose partitions this task has asked for."""
    transactional: bool

    @property
    def identity(self) -> ProducerIdentity: ...

    def join(self, targets: Collection[TopicPartition]) -> None:
        """Prepare for batches to these partitions."""

    def next_sequence(self, target: TopicPartition) -> int: ...

    def send(self, target: TopicPartition, batch: EncodedBatch) -> None:
        """Append a batch; returns when it is on every in-sync replica."""


@dataclass(slots=True)
class IdempotentSender:
    """Kept by the worker process for all its tasks."""

    where: Cluster
    kafka: KafkaSettings
    identity: ProducerIdentity
    turn: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    transactional: bool = False

    def join(self, targets: Collection[TopicPartition]) -> None:
        pass

    def next_sequence(self, target: TopicPartition) -> int:
        return self.sequences.get(target, 0)

    def send(self, target: TopicPartition, batch: EncodedBatch) -> None:
        self.where.produce(
            target.topic,
            target.partition,
            batch.batch,
            delivery_timeout_ms=self.kafka.delivery_timeout_ms,
            request_timeout_ms=self.kafka.request_timeout_ms,
        )
        self.sequences[target] = (batch.base_sequence + batch.rows) & 0x7FFFFFFF


class TransactionalSender:
    """Sends in the open transaction of a task's attempt."""

    transactional = True

    def __init__(self, where: Cluster, kafka: KafkaSettings, transactor: Transactor) -> None:
        self._where, self._kafka, self._transactor = where, kafka, transactor
        self.turn = random.randrange(1 << 16)
        self.seen: set[str] = set()

    @property
    def identity(self) -> ProducerIdentity:
        return self._transactor.identity

    def join(self, targets: Collection[TopicPartition]) -> None:
        """Prepare all partitions at once, if the client adds partitions to its transaction."""
        self._where.run(self._transactor.add(targets))

    def next_sequence(self, target: TopicPartition) -> int:
        return self._transactor.next_sequence(target)

    def send(self, target: TopicPartition, batch: EncodedBatch) -> None:
        timeout_ms, batches = self._kafka.delivery_timeout_ms, [(target, bytes(batch.batch))]
        self._where.run(self._transactor.produce(batches, delivery_timeout_ms=timeout_ms, may_cut=True))


_kept: dict[tuple[int, str], IdempotentSender] = {}


def taken(where: Cluster, kafka: KafkaSettings) -> IdempotentSender:
    """This process's idempotent sender, or a new one.

    Taken out while in use: after a failure the sequences are not known, and the next task takes a new id.
    """
    kept = _kept.pop((os.getpid(), kafka.bootstrap_servers), None)
    if kept is None:
        where.refresh()  # which waits for brokers that are away; a request for a producer id does not
        return IdempotentSender(where, kafka, where.init_producer_id(), random.randrange(1 << 16))
    kept.where, kept.kafka, kept.seen = where, kafka, set()
    return kept


def given_back(sender: IdempotentSender) -> None:
    """Keep the sender for the next task."""
    _kept[os.getpid(), sender.kafka.bootstrap_servers] = sender
