"""`python -m ottla.demo.produce`: events into topics at full speed, as the pipeline's program `events`.

Comes from flights.py; the next doors are lake.py and query.py.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable

import pyarrow as pa

from ottla.client.blocking.cluster import Cluster
from ottla.client.model import LATEST
from ottla.config.profiles import bootstrap_servers
from ottla.demo.flights import Events, all_events
from ottla.demo.measured import EVENTS, DemoSpeed
from ottla.kernel.ids import TopicPartition
from ottla.records.columns import encode_columns
from ottla.rows.arrow import binary_column

BATCH_BYTES = 900_000


def main() -> int:
    """Produce all events, and note how many and how fast."""
    topics = all_events()
    rate = produce(bootstrap_servers(os.environ).address, topics)
    count = sum(len(events.values) for events in topics)
    if not rate:
        print(f"{count:,} events are in {len(topics)} topics already", flush=True)
        return 0
    print(f"{count:,} events in {len(topics)} topics, every one acknowledged: {rate:,.0f} a second", flush=True)
    DemoSpeed(count, count / rate).keep(EVENTS)
    return 0


def produce(address: str, topics: Iterable[Events]) -> float:
    """Send what is not there yet, idempotent and acks=all, waiting for every batch's acknowledgement; records a second.

    All records are there already, so that whole columns become batches; no Python runs for a single record. A topic has
    one partition, so its end says how many of its events an earlier run has sent.
    """
    begin, records = time.monotonic(), 0
    with Cluster(address) as cluster:
        identity = cluster.init_producer_id()
        for events in topics:
            partition = TopicPartition(events.topic, 0)
            sent = cluster.list_offsets([partition], LATEST)[partition].offset
            times = pa.array(events.times_ms[sent:], pa.int64())
            batches = encode_columns(
                len(times),
                key=binary_column(pa.array(events.keys[sent:], pa.binary())),
                value=binary_column(pa.array(events.values[sent:], pa.binary())),
                timestamp=(None, times.buffers()[1]),
                max_bytes=BATCH_BYTES,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=0,
            )
            for encoded in batches if len(times) else ():
                cluster.produce(events.topic, 0, encoded.batch)
                records += encoded.rows
    return records / (time.monotonic() - begin)


if __name__ == "__main__":
    sys.exit(main())
