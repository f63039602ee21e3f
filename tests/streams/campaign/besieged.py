"""Runs sessions, a join of tables and one by foreign key on Spark, and kills workers, executors, drivers and brokers.

The committed results of each key must be those of the engine for the same batches, each once, and the tables that they
end with those of Kafka's test driver.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from tests.spark.campaign.run import Campaign, Scale
from tests.streams.campaign.at_random import Sequences, by_topic_and_key
from tests.streams.in_batches import batches_of
from tests.streams.levels import Levels
from tests.streams.oracle import MISSING, Oracle, Row
from tests.streams.programs import Program, built

from ottla.client import Admin
from ottla.client.blocking.runs import RunProducer
from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.streams import run
from ottla.streams.sending import BatchSending
from ottla.streams.values import Input, Place
from ottla.testing.reading import read_topic

PARTITIONS = 2
KEYS = 20_000
SESSIONS: Program = [("stream", 0, [], "events"), ("windowed", 3, [0], ""), ("to", 0, [1], "sessions")]
JOINS: Program = [
    ("table", 0, [], "left"), ("table", 0, [], "right"), ("tables", 2, [0, 1], ""), ("by_value", 0, [0, 1], ""),
    ("to_stream", 0, [2], ""), ("to_stream", 0, [3], ""), ("to", 0, [4], "joined"), ("to", 0, [5], "foreign"),
]  # fmt: skip
WHOLE: Program = [*SESSIONS, *((name, n, [at + len(SESSIONS) for at in of], topic) for name, n, of, topic in JOINS)]
READ, WRITTEN = ("events", "left", "right"), ("sessions", "joined", "foreign")
HEAP = "3g"


def rows_of(seed: int, count: int) -> list[Row]:
    """Two fifths are events of keys that come and go, the others updates of two tables; a few rows are deleted."""
    draw, rows, busy = random.Random(seed), list[Row](), ["e0"] * 3
    for at in range(count):
        topic = draw.choice(("events", "events", "left", "right", "left"))
        if topic == "events":
            if draw.random() < 0.2:
                busy[draw.randrange(3)] = f"e{draw.randrange(KEYS)}"
            rows.append((topic, draw.choice(busy), str(at % 10), at))
        else:
            value = None if draw.random() < 0.05 else f"k{draw.randrange(KEYS)}"
            rows.append((topic, f"k{draw.randrange(KEYS)}", value, at))
    return rows


class Besieged(Campaign):
    """The application of the campaign, its topics and its verdict."""

    batches_per_kill = 2
    patience_s = 1800

    def judge(self) -> None:
        """Feed, kill, and compare what is committed then."""
        self._rows = rows_of(self._scale.seed, self._scale.rows)
        self._feed()
        self._tell(f"{len(self._rows):,} records in {', '.join(READ)}")
        self.besiege()
        found = self._committed()
        self._tell(f"{self.ended.committed:,} results are committed")
        self._compare("the engine for the same batches", found, self._expected())
        if MISSING:
            self.ended.differences.append("Kafka's jars of Streams are not here: run `tools/setup.sh streams-jars`")
            return
        self._compare("Kafka's driver in the end", tables(found), self._kafkas())

    def _feed(self) -> None:
        with Admin(self._cluster.bootstrap) as admin:
            for name in (*READ, *WRITTEN):
                configs = {"min.insync.replicas": "2", "retention.ms": "-1"}  # the records' times are of 1970
                admin.create_topic(name, PARTITIONS, 3, configs=configs)
        self._records = _placed(self._rows)
        with RunProducer(self._cluster.bootstrap) as producer:
            for (topic, partition), records in self._records.items():
                sending = BatchSending(producer)
                for each in records:
                    sending.add(topic, each.key, each.value, each.timestamp, partition=partition)
                sending.send()

    def _command(self) -> list[str]:
        return [
            sys.executable, "-m", "tests.streams.campaign.besieged", self._scale.master, self._cluster.bootstrap,
            str(self._folder / "checkpoint"), str(self._most),
        ]  # fmt: skip

    def _committed(self) -> Sequences:
        where = self._cluster.bootstrap
        found = [
            [_text(each.key), _text(each.value), each.timestamp, topic]
            for topic in WRITTEN
            for each in read_topic(where, topic, at_least=0, isolation_level="read_committed", timeout=600)
        ]
        self.ended.committed = len(found)
        return by_topic_and_key(found)

    def _expected(self) -> Sequences:
        levels = Levels(built(WHOLE), dict.fromkeys(READ, PARTITIONS))
        checkpoint = self._folder / "checkpoint"
        return by_topic_and_key(
            [
                [_text(one.key), _text(one.value), one.timestamp, one.topic]
                for at, batch in enumerate(batches_of(checkpoint, self._records))
                for one in levels.run(at, batch)
            ]
        )

    def _kafkas(self) -> dict[Any, Any]:
        """The tables in the end; two requests, as one answer would not fit into memory."""
        found: dict[Any, Any] = {}
        for program in (SESSIONS, JOINS):
            oracle = Oracle(self._folder, heap=HEAP)
            try:
                read = {step[3] for step in program if step[0] in ("stream", "table")}
                outputs = oracle.ask(program, [row for row in self._rows if row[0] in read])["outputs"]
            finally:
                oracle.close()
            found |= tables(by_topic_and_key(outputs))
        return found

    def _compare(self, other: str, mine: dict[Any, Any], theirs: dict[Any, Any]) -> None:
        places = sorted(mine.keys() | theirs.keys(), key=str)
        wrong = [place for place in places if mine.get(place) != theirs.get(place)]
        self._tell(f"{len(mine):,} keys beside {other}: {len(wrong):,} differ")
        self.ended.differences += [
            f"{place}: {mine.get(place)!s:.300}; {other}: {theirs.get(place)!s:.300}" for place in wrong[:5]
        ]


def tables(results: Sequences) -> dict[Any, Any]:
    """The last value of each key that has one. Its time may be that of another order of the topics."""
    return {place: found[-1][0] for place, found in results.items() if found[-1][0] is not None}


def _placed(rows: list[Row]) -> dict[tuple[str, int], list[Input]]:
    """The records of each topic and partition, where Kafka's default partitioner puts them."""
    placed: dict[tuple[str, int], list[Input]] = {
        (topic, partition): [] for topic in READ for partition in range(PARTITIONS)
    }
    for topic, key, value, timestamp in rows:
        assert key is not None
        partition = murmur2_partitioner(key.encode(), range(PARTITIONS), PARTITIONS)
        there = placed[topic, partition]
        there.append(
            Input(
                Place(topic, partition, len(there)), key.encode(), None if value is None else value.encode(), timestamp
            )
        )
    return placed


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def besiege(records: int, kills: int, seed: int, master: str, folder: Path, tell: Any) -> list[str]:
    """Run it over a cluster of three brokers; sentences on what differs."""
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / each) for each in ("compat", "server")]
    from tests.spark.campaign.__main__ import OTTLA, cluster, report

    with cluster(OTTLA) as brokers:
        siege = Besieged(Scale(records, kills, seed, "", master), brokers, folder, tell)
        siege.judge()
    print(report(siege.ended), flush=True)
    return siege.ended.differences


def main(master: str, bootstrap: str, checkpoint: str, most: str) -> None:
    """A driver, to be killed."""
    from ottla.spark import session

    settings = {"spark.task.maxFailures": "10", "spark.executor.memory": "1g", "spark.cores.max": "2"}
    spark = session("besieged", master, **{name.replace(".", "__"): text for name, text in settings.items()})
    run(
        built(WHOLE), application_id="besieged", bootstrap=bootstrap, on="spark", spark=spark, checkpoint=checkpoint,
        max_records=int(most), available_now=True,
    )  # fmt: skip
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
