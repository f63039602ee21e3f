"""Beside Spark's own Kafka connector, on the same broker (ours), in the same session: read, lake, write, stream."""

from __future__ import annotations

import atexit
import json
import subprocess
from functools import partial
from typing import IO

from bench.brokers import ROOT
from bench.lines import Figure, Figures, Line
from bench.rig import Rig
from ottla.client.blocking_admin import Admin

SIDES = ("ottla", "spark-kafka")
FORMATS = {"ottla": "ottla", "spark-kafka": "kafka"}
RECORDS = 2_000_000
WRITTEN = 2_000_000
PARTITIONS = 4
TRIGGERS = 36
EACH_TRIGGER = 1_000


class Worker:
    """A process of pyspark 4.2 that runs jobs."""

    def __init__(self, bootstrap: str, log: IO[bytes]) -> None:
        command = [str(ROOT / ".venv-spark42" / "bin" / "python"), "-m", "bench.spark_jobs", bootstrap]
        command.append(str(ROOT / ".cache" / "spark-kafka" / "libs"))
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        atexit.register(self.stop)
        self._answer()

    def run(self, job: str, side: str, **arguments: object) -> float:
        """The seconds that a job took."""
        assert self.process.stdin is not None
        print(json.dumps({"job": job, "connector": FORMATS[side], **arguments}), file=self.process.stdin, flush=True)
        return float(self._answer()["seconds"])

    def stop(self) -> None:
        """End the session."""
        if self.process.poll() is None:
            self.process.communicate(timeout=60)

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the Spark session ended; see spark.log in the race's folder")
        answer: dict[str, float] = json.loads(line)
        if "fault" in answer:
            raise RuntimeError(str(answer["fault"]))
        return answer


_warm: list[Worker] = []
_filled: dict[int, str] = {}


def fresh(rig: Rig) -> Worker:
    with (rig.folder / "spark.log").open("ab") as log:
        return Worker(rig.broker("ottla").address, log)


def warm_worker(rig: Rig) -> Worker:
    """The one session in which warm runs take turns."""
    if not _warm:
        _warm.append(fresh(rig))
    return _warm[0]


def filled(rig: Rig, records: int) -> str:
    """A topic of our broker with so many records of 200 bytes, made once."""
    records = rig.sized(records)
    if records not in _filled:
        topic = f"race-spark-{records}"
        Admin(rig.broker("ottla").address).create_topic(topic, PARTITIONS)
        rig.drive("ottla", "produce", topic=topic, records=records, acks="1", partitions=PARTITIONS)
        _filled[records] = topic
    return _filled[records]


def measure_read(rig: Rig, side: str, *, job: str, cold: bool) -> Figures:
    """Source or lake: the whole topic in one run."""
    topic = filled(rig, RECORDS)
    return timed(rig, side, cold, rig.sized(RECORDS), job, topic=topic)


def measure_write(rig: Rig, side: str, *, cold: bool) -> Figures:
    rows = rig.sized(WRITTEN)
    with rig.topic("ottla", PARTITIONS) as topic:
        return timed(rig, side, cold, rows, "write", topic=topic, rows=rows)


def measure_stream(rig: Rig, side: str) -> Figures:
    topic = filled(rig, max(RECORDS, 2 * EACH_TRIGGER * TRIGGERS))
    seconds = warm_worker(rig).run("stream", side, topic=topic, each=EACH_TRIGGER, triggers=TRIGGERS)
    return {"trigger_ms": seconds * 1000}


def timed(rig: Rig, side: str, cold: bool, records: int, job: str, **arguments: object) -> Figures:
    """A job in the warm session, or the first of a new one."""
    if not cold:
        return {"records_per_second": records / warm_worker(rig).run(job, side, **arguments)}
    worker = fresh(rig)
    try:
        return {"records_per_second": records / worker.run(job, side, **arguments)}
    finally:
        worker.stop()


def line(name: str, title: str, wanted: float, run: partial[Figures], *, cold: bool, order: int) -> Line:
    state = "cold" if cold else "warm"
    return Line(
        f"spark-{name}-{state}",
        (Figure("records_per_second", f"Spark, {title}, {state}", "records/s", at_least=wanted),),
        partial(run, cold=cold),
        warm=None if cold else lambda rig, side: [run(rig, side, cold=False) for _ in range(2)] and None,
        contestants=SIDES,
        rounds=3 if cold else 5,
        order=order + cold,
    )


READ, LAKE = (partial(measure_read, job=job) for job in ("source", "lake"))
LINES = [
    *(line("source", "topic to nowhere", 1.0, READ, cold=cold, order=70) for cold in (False, True)),
    *(line("lake", "topic to Parquet", 2.0, LAKE, cold=cold, order=72) for cold in (False, True)),
    line("write", "data frame to topic", 0.9, partial(measure_write), cold=False, order=74),
    line("write", "data frame to topic", 1.0, partial(measure_write), cold=True, order=74),
    Line(
        "spark-stream",
        (Figure("trigger_ms", "Spark, a small micro-batch to Parquet", "ms", more_is_better=False, at_most=1.3),),
        measure_stream,
        warm=lambda rig, side: measure_stream(rig, side) and None,
        contestants=SIDES,
        rounds=3,
        order=76,
    ),
]
