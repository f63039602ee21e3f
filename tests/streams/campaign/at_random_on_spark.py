"""Holds topologies made at random on Spark, in random cuts with a crash and restarts, to the engine without Spark."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.streams.campaign.at_random import OURS, Sequences, by_topic_and_key
from tests.streams.in_batches import batches_of
from tests.streams.levels import Levels
from tests.streams.oracle import Refused, Row
from tests.streams.programs import Program, built, drawn

from ottla.client import Admin, Producer
from ottla.streams import Topology, TopologyError, run
from ottla.streams.graph import SinkNode
from ottla.streams.on_spark import job
from ottla.streams.values import Input, Place
from ottla.testing.reading import read_topic


class Crash(RuntimeError):
    """The driver's batch breaks off."""


def campaign_on_spark(topologies: int, minutes: float, seed: int, folder: Path) -> int:
    """Run so many topologies in one session, or until the time is over; the number of those that differ."""
    from ottla.spark import session
    from ottla.testing import TestBroker

    deadline = time.monotonic() + 60 * minutes
    ran, different, refused = 0, 0, Counter[str]()
    spark = session("streams-at-random", "local[2]")
    spark.sparkContext.setLogLevel("OFF")  # or each crash is a page
    try:
        with TestBroker() as broker:
            for number in range(topologies):
                if time.monotonic() > deadline:
                    break
                program, rows = drawn(random.Random(f"{seed} {number}"))
                try:
                    faults = differences_on_spark(program, rows, number, spark, broker.bootstrap_servers, folder)
                except Refused as why:
                    refused[str(why)[:200]] += 1
                    continue
                ran += 1
                if faults:
                    different += 1
                    print(f"topology {number} is DIFFERENT\n  {json.dumps(program)}\n  {json.dumps(rows)}", flush=True)
                    print("".join(f"  {fault}\n" for fault in faults), end="", flush=True)
    finally:
        spark.stop()
    for why, count in refused.most_common():
        print(f"{count} refused, {why}")
    print(f"{ran} topologies of seed {seed} ran on Spark: {different} different", flush=True)
    return different


def differences_on_spark(
    program: Program, rows: Sequence[Row], number: int, spark: Any, bootstrap: str, folder: Path
) -> list[str]:
    """Sentences on what a run on Spark, with a crash and a restart, does not have in common with the engine."""
    draw, mark = random.Random(number), f"random-{number}-"
    named: Program = [(name, n, of, topic and mark + topic) for name, n, of, topic in program]
    try:
        topology = built(named)
    except TopologyError as refused:
        raise Refused(f"{OURS}{refused}") from refused
    outs = [str(node.topic) for node in topology.nodes.values() if isinstance(node, SinkNode) and not node.repartition]
    with Admin(bootstrap) as admin:
        for topic in (*topology.topics(), *outs):
            admin.create_topic(topic, 1, configs={"retention.ms": "-1"})  # the records' times are of 1970
    checkpoint, cut = folder / f"{number}", draw.randint(0, len(rows))

    def go_on(crash: int | None = None) -> None:
        with _crashing(crash, after=draw.random() < 0.5):
            run(
                topology, application_id=f"app-{number}", bootstrap=bootstrap, on="spark", spark=spark,
                checkpoint=str(checkpoint), max_records=draw.randint(3, 9), available_now=True,
                stores=draw.choice(("memory", "disk")),
            )  # fmt: skip

    _write(bootstrap, mark, rows[:cut])
    try:
        go_on(crash=draw.randint(0, 2))
    except Exception as fault:
        if "Crash" not in str(fault):
            raise
    _write(bootstrap, mark, rows[cut:])
    go_on()
    found = [
        [_text(record.key), _text(record.value), record.timestamp, topic]
        for topic in outs
        for record in read_topic(bootstrap, topic, at_least=0, isolation_level="read_committed", timeout=120)
    ]
    return _compared(topology, by_topic_and_key(found), wanted(topology, mark, rows, checkpoint))


def wanted(topology: Topology, mark: str, rows: Sequence[Row], checkpoint: Path) -> Sequences:
    """The results of the engine for the batches that Spark has noted."""
    records: dict[tuple[str, int], list[Input]] = {(topic, 0): [] for topic in topology.topics()}
    for topic, key, value, timestamp in rows:
        there = records[mark + topic, 0]
        place = Place(mark + topic, 0, len(there))
        there.append(Input(place, _bytes(key), _bytes(value), timestamp))
    levels = Levels(topology, dict.fromkeys(topology.topics(), 1))
    outputs = [one for at, batch in enumerate(batches_of(checkpoint, records)) for one in levels.run(at, batch)]
    return by_topic_and_key([[_text(one.key), _text(one.value), one.timestamp, one.topic] for one in outputs])


def _compared(topology: Topology, found: Sequences, expected: Sequences) -> list[str]:
    """Places whose results differ; between tasks of one batch no order is said."""
    said = []
    for place in sorted(found.keys() | expected.keys(), key=str):
        mine, theirs = found.get(place, []), expected.get(place, [])
        if _of_several_tasks(topology, place[0]):
            mine, theirs = sorted(mine, key=str), sorted(theirs, key=str)
        if mine != theirs:
            said.append(f"Spark, {place}: {mine}; the engine {theirs}")
    return said


def _of_several_tasks(topology: Topology, out: str) -> bool:
    """True if records of several topics are mapped to a topic: Spark reads each in a task of its own."""
    (sink,) = (node for node in topology.nodes.values() if isinstance(node, SinkNode) and node.topic == out)
    part = next(each for each in topology.sub_topologies if sink.name in each.nodes)
    return sum(source.name in part.nodes for source in topology.sources()) > 1


@contextmanager
def _crashing(batch: int | None, *, after: bool) -> Iterator[None]:
    """Break a batch off, before its results are written or after."""
    whole = job.write_batch

    def crash(results: Any, number: int, *more: Any) -> None:
        if number == batch and not after:
            results.count()
            raise Crash
        whole(results, number, *more)
        if number == batch:
            raise Crash

    with patch.object(job, "write_batch", crash):
        yield


def _write(bootstrap: str, mark: str, rows: Sequence[Row]) -> None:
    with Producer(bootstrap) as producer:
        for topic, key, value, timestamp in rows:
            producer.produce(mark + topic, value, key, timestamp=timestamp)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
