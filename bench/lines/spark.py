"""Compares with Spark's own Kafka connector on our broker and in the same session: read, lake, write, stream."""

from __future__ import annotations

from functools import partial

from bench.lines import Figure, Figures, Line
from bench.rig import Rig
from bench.spark_worker import Worker
from ottla.client.blocking.admin import Admin

SIDES = ("ottla", "spark-kafka")
RECORDS = 2_000_000
WRITTEN = 2_000_000
PARTITIONS = 4
TRIGGERS = 36
EACH_TRIGGER = 1_000


_warm: dict[str, Worker] = {}
_filled: dict[int, str] = {}


def fresh(rig: Rig, kind: str = "tuned") -> Worker:
    with (rig.folder / "spark.log").open("ab") as log:
        return Worker(rig.broker("ottla").address, log, kind)


def warm_worker(rig: Rig, kind: str = "tuned") -> Worker:
    """The session of a kind in which the warm runs of both sides take turns."""
    if kind not in _warm:
        _warm[kind] = fresh(rig, kind)
    return _warm[kind]


def filled(rig: Rig, records: int) -> str:
    """A topic of our broker with `records` records of 200 bytes, made at the first call."""
    records = rig.sized(records)
    if records not in _filled:
        topic = f"race-spark-{records}"
        Admin(rig.broker("ottla").address).create_topic(topic, PARTITIONS)
        rig.drive("ottla", "produce", topic=topic, records=records, acks="1", partitions=PARTITIONS)
        _filled[records] = topic
    return _filled[records]


def measure_read(rig: Rig, side: str, *, job: str, cold: bool, kind: str = "tuned") -> Figures:
    """Read the whole topic in one run, by the source or into a lake."""
    topic = filled(rig, RECORDS)
    return timed(rig, side, kind, cold, rig.sized(RECORDS), job, topic=topic)


def measure_write(rig: Rig, side: str, *, cold: bool, kind: str = "tuned") -> Figures:
    rows = rig.sized(WRITTEN)
    with rig.topic("ottla", PARTITIONS) as topic:
        return timed(rig, side, kind, cold, rows, "write", topic=topic, rows=rows)


def measure_stream(rig: Rig, side: str) -> Figures:
    topic = filled(rig, max(RECORDS, 2 * EACH_TRIGGER * TRIGGERS))
    seconds = warm_worker(rig).run("stream", side, topic=topic, each=EACH_TRIGGER, triggers=TRIGGERS)
    return {"trigger_ms": seconds * 1000}


def timed(rig: Rig, side: str, kind: str, cold: bool, records: int, job: str, **arguments: object) -> Figures:
    """Run a job in the warm session, or, if `cold`, as the first job of a new one."""
    if not cold:
        return {"records_per_second": records / warm_worker(rig, kind).run(job, side, **arguments)}
    worker = fresh(rig, kind)
    try:
        return {"records_per_second": records / worker.run(job, side, **arguments)}
    finally:
        worker.stop()


def line(name: str, title: str, wanted: float, run: partial[Figures], *, cold: bool, order: int) -> Line:
    state = "cold" if cold else "warm"
    return Line(
        f"spark-{name}-{state}",
        (Figure("records_per_second", f"{title}, {state}", "records/s", at_least=wanted),),
        partial(run, cold=cold),
        warm=None if cold else lambda rig, side: [run(rig, side, cold=False) for _ in range(2)] and None,
        contestants=SIDES,
        rounds=3 if cold else 5,
        order=order + cold,
    )


READ, LAKE = (partial(measure_read, job=job) for job in ("source", "lake"))
UNTUNED_READ = partial(measure_read, job="source", kind="untuned")
UNTUNED_WRITE = partial(measure_write, kind="untuned")
LINES = [
    *(line("source", "Spark, topic to nowhere", 1.0, READ, cold=cold, order=70) for cold in (False, True)),
    *(line("lake", "Spark, topic to Parquet", 4.0, LAKE, cold=cold, order=72) for cold in (False, True)),
    line("write", "Spark, data frame to topic", 0.9, partial(measure_write), cold=False, order=74),
    line("write", "Spark, data frame to topic", 1.0, partial(measure_write), cold=True, order=74),
    *(
        line("source-untuned", "untuned Spark, topic to nowhere", 1.0, UNTUNED_READ, cold=cold, order=76)
        for cold in (False, True)
    ),
    *(
        line("write-untuned", "untuned Spark, frame to topic", 1.0, UNTUNED_WRITE, cold=cold, order=78)
        for cold in (False, True)
    ),
    Line(
        "spark-stream",
        (Figure("trigger_ms", "Spark, a small micro-batch to Parquet", "ms", more_is_better=False, at_most=1.3),),
        measure_stream,
        warm=lambda rig, side: measure_stream(rig, side) and None,
        contestants=SIDES,
        rounds=3,
        order=80,
    ),
]
