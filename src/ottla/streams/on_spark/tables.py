"""Global tables on a worker: the same rows for every task of a batch, up to offsets that the driver has noted."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.kernel.ids import TopicPartition
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import OffsetRange
from ottla.rows.read import read_decoded
from ottla.streams.engine.task import Task
from ottla.streams.graph import Topology
from ottla.streams.stores import Store
from ottla.streams.stores.disk import database
from ottla.streams.values import Input, Place

Spans = Mapping[str, Mapping[str, tuple[int, int]]]
"""The first and the next offset of each partition, by topic and number."""


class WorkerTables:
    """Every global table of a topology, kept by this process."""

    def __init__(self, topology: Topology, kafka: KafkaSettings, stores: str) -> None:
        self._topology, self._kafka, self._place = topology, kafka, stores
        self._forget()

    @property
    def stores(self) -> Mapping[str, Store]:
        """The tables' stores, for `Task(shared=…)`; the same ones until `read_to` has to begin anew."""
        return self._task.stores

    def read_to(self, spans: Spans) -> bool:
        """Read up to these ends; True where the tables had to be read anew, since they were further already."""
        wanted = {TopicPartition(t, int(p)): span for t, each in spans.items() for p, span in each.items()}
        anew = any(at > wanted.get(partition, (0, 0))[1] for partition, at in self._at.items())
        if anew:
            self._forget()
        for partition, (start, end) in sorted(wanted.items()):
            at = max(self._at.get(partition, 0), start)
            if at < end:
                self._read(OffsetRange(partition.topic, partition.partition, at, end))
            self._at[partition] = max(at, end)
        self._task.take(0)  # the topics are the tables' changelogs
        return anew

    def _forget(self) -> None:
        self._task = Task(self._topology, sub_topologies=(), rows=database(self._place))
        self._at: dict[TopicPartition, int] = {}

    def _read(self, span: OffsetRange) -> None:
        for piece in read_decoded(span, self._kafka, fail_on_data_loss=False, counted=False):
            names = ("offset", "key", "value", "timestamp")
            columns = [piece.batch.column(name).to_pylist() for name in names[:3]]
            times = piece.batch.column("timestamp").cast("int64").to_pylist()
            for offset, key, value, time in zip(*columns, times, strict=True):
                place = Place(span.topic, span.partition, offset)
                self._task.feed(Input(place, key, value, time // 1000))
