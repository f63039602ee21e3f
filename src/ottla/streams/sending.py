"""Sends the records of a transaction in runs: one for each partition, as long as the headers stay the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.client.blocking.runs import RunProducer
from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.client.produce.run import Run
from ottla.streams.values import Headers


@dataclass(slots=True)
class _Lists:
    headers: Headers
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)


class BatchSending:
    """Takes records one by one; `send` hands them to the producer, those of a partition in their order."""

    def __init__(self, producer: RunProducer) -> None:
        self._producer = producer
        self._counts: dict[str, int] = {}
        self._runs: dict[tuple[str, int | None], list[_Lists]] = {}

    def add(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
        *,
        partition: int | None = None,
    ) -> None:
        """Take one record. Without `partition` its key chooses, as in Kafka; records without a key stay together."""
        if partition is None and key is not None:
            if topic not in self._counts:
                self._counts[topic] = self._producer.partitions_of(topic)[1]
            partition = murmur2_partitioner(key, (), self._counts[topic])
        runs = self._runs.setdefault((topic, partition), [])
        if not runs or runs[-1].headers != headers:
            runs.append(_Lists(headers))
        last = runs[-1]
        last.keys.append(key)
        last.values.append(value)
        last.timestamps.append(timestamp)

    def send(self) -> None:
        """Hand over all records; the transaction's commit waits for them."""
        for (topic, partition), runs in self._runs.items():
            for each in runs:
                keys = None if partition is None else each.keys
                run = Run(each.values, keys, each.headers, each.timestamps, partition)
                for _ in self._producer.produce_run(topic, run):
                    pass
        self._runs.clear()
