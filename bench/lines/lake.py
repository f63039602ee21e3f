"""The lake beside its alternatives: Spark's own writer of Delta on S3, and fastavro on the same executors."""

from __future__ import annotations

import atexit
import json
from itertools import count

from tests.lake.store_rigs import BUCKET, MotoServer

from bench.avro_decode import SCHEMA, payloads
from bench.lines import Figure, Figures, Line
from bench.lines.spark import PARTITIONS, SIDES, filled, warm_worker
from bench.rig import Rig
from bench.small_loads import fill, load
from bench.spark_worker import Worker
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.records.builder import build_batch
from ottla.records.reader import Record

RECORDS = 2_000_000
AVRO_RECORDS = 1_000_000
SMALL = 1_000
DIFFERENT = 20_000
"""The number of different Avro payloads; the topic repeats them."""
BATCH = 5_000
TIME_MS = 1_700_000_000_000

_numbers = count()
_s3: list[tuple[MotoServer, Worker]] = []
_avro: dict[int, str] = {}
_small: list[str] = []


def measure_delta(rig: Rig, side: str) -> Figures:
    """Load the whole topic into a new table in one run."""
    topic, worker = filled(rig, RECORDS), on_s3(rig)
    seconds = worker.run("delta", side, topic=topic, place=f"{BUCKET}/{side}-{next(_numbers)}")
    return {"records_per_second": rig.sized(RECORDS) / seconds}


def on_s3(rig: Rig) -> Worker:
    """A session and an S3 server, both made at the first call."""
    if not _s3:
        server = MotoServer(rig.folder)
        atexit.register(server.stop)
        with (rig.folder / "spark.log").open("ab") as log:
            _s3.append((server, Worker(rig.broker("ottla").address, log, "with-delta", server.environment())))
    return _s3[0][1]


def stop_s3(_: Rig) -> None:
    while _s3:
        server, worker = _s3.pop()
        worker.stop()
        server.stop()


def measure_avro(rig: Rig, side: str) -> Figures:
    """Decode the whole topic in one run."""
    records = rig.sized(AVRO_RECORDS)
    seconds = warm_worker(rig).run("avro", side, topic=avro_topic(rig, records), schema=json.dumps(SCHEMA))
    return {"records_per_second": records / seconds}


def avro_topic(rig: Rig, records: int) -> str:
    """A topic of our broker with `records` Avro values without a prefix, made at the first call."""
    if records not in _avro:
        topic, address = f"race-avro-{records}", rig.broker("ottla").address
        Admin(address).create_topic(topic, PARTITIONS)
        values = payloads(DIFFERENT)
        batches = [
            build_batch([Record(0, TIME_MS + at, b"key-%d" % at, values[at]) for at in range(start, start + BATCH)])
            for start in range(0, DIFFERENT, BATCH)
        ]
        with Cluster(address) as cluster:
            for number in range(records // BATCH):
                cluster.produce(topic, number % PARTITIONS, batches[number % len(batches)])
        _avro[records] = topic
    return _avro[records]


def measure_small(rig: Rig, engine: str) -> Figures:
    """Load a thousand records into a new lake by the command, from its start to its end."""
    address, place = rig.broker("ottla").address, rig.folder / f"small-{next(_numbers)}"
    if not _small:
        fill(address, f"small-{SMALL}", SMALL)
        _small.append(address)
    return {"seconds": load(address, SMALL, engine, place).seconds}


LINES = [
    Line(
        "lake-small",
        (Figure("seconds", "A load of 1,000 records, whole command, beside one on Spark", "s", False, at_most=0.3),),
        measure_small,
        contestants=("local", "spark"),
        order=81,
    ),
    Line(
        "lake-delta-s3",
        (Figure("records_per_second", "Spark, topic to Delta on S3, warm", "records/s", at_least=2.0),),
        measure_delta,
        warm=lambda rig, side: [measure_delta(rig, side) for _ in range(2)] and None,
        finish=stop_s3,
        contestants=SIDES,
        order=82,
    ),
    Line(
        "lake-avro",
        (Figure("records_per_second", "Avro to Parquet, beside fastavro", "records/s", at_least=3.0),),
        measure_avro,
        warm=lambda rig, side: [measure_avro(rig, side) for _ in range(2)] and None,
        contestants=SIDES,
        order=84,
    ),
]
