"""Events into topics at full speed. Comes from flights.py; the next doors are lake.py and query.py."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pyarrow as pa

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.demo.flights import Events
from ottla.records.columns import encode_columns
from ottla.rows.arrow import binary_column

BATCH_BYTES = 900_000


def create_topics(address: str, topics: Iterable[Events]) -> None:
    """With retention.ms=-1: the events are years old and would be deleted at the first look otherwise."""
    with Admin(address) as admin:
        for events in topics:
            admin.create_topic(events.topic, 1, configs={"retention.ms": "-1"})


def produce(address: str, topics: Iterable[Events]) -> float:
    """Send everything, idempotent and acks=all, waiting for every batch's acknowledgement; records a second.

    All records are there already, so that whole columns become batches; no Python runs for a single record.
    """
    begin, records = time.monotonic(), 0
    with Cluster(address) as cluster:
        identity = cluster.init_producer_id()
        for events in topics:
            times = pa.array(events.times_ms, pa.int64())
            batches = encode_columns(
                len(events.values),
                key=binary_column(pa.array(events.keys, pa.binary())),
                value=binary_column(pa.array(events.values, pa.binary())),
                timestamp=(None, times.buffers()[1]),
                max_bytes=BATCH_BYTES,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=0,
            )
            for encoded in batches:
                cluster.produce(events.topic, 0, encoded.batch)
                records += encoded.rows
    return records / (time.monotonic() - begin)
