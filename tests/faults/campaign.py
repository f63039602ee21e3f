"""Shared by both campaigns: brokers with their clients; settling, reading and judging a round; files that are kept."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from confluent_kafka import KafkaException
from tests.faults.brokers import Broker, Brokers, Stuck, until
from tests.faults.clients import PARTITIONS, TOPIC, Group, Prober, Reader, Writer, scan
from tests.faults.sent_anew import senders_on_disk
from tests.faults.witness import Witness

from ottla.sim.checkers.history import Anomaly, Disturbed, Failed, Healed, LogKey, Scanned, Traits

BROKEN_OFF = (Stuck, AssertionError, OSError, subprocess.SubprocessError, KafkaException)
"""Exceptions that end a campaign early."""

WITHIN_S = 60
"""The time after the last healing within which every partition must take a write."""


class Campaign:
    """Three brokers under load; call `settle` and `judge` once everything is healed."""

    def __init__(self, brokers: Brokers, witness: Witness, seed: int, *, per_second: float, ahead: int) -> None:
        self.brokers = brokers
        self.witness = witness
        self.random = Random(seed)
        self._seed = seed
        self._pace = {"per_second": per_second / 2, "ahead": ahead}
        self.began_s = time.monotonic()

    def begin(self, config: Mapping[str, str] | None = None) -> None:
        """Start the brokers and the clients; `config` adds to the topic's safe configuration."""
        for partition in range(PARTITIONS):
            self.witness.promise(LogKey(TOPIC, partition), Traits(TOPIC))
        self.brokers.start()
        self.brokers.create_topic(config or {})
        until(self.brokers.are_whole, "all replicas of the new topic are in sync")
        way, witness, seed = self.brokers.way, self.witness, self._seed
        self.writers = [Writer(name, way, witness, seed, **self._pace) for name in ("w1", "w2")]
        self.prober = Prober("probe", way, witness, seed, **self._pace)
        self.reader = Reader(way, witness)
        self.group = Group(way, witness, seed)
        for client in (*self.writers, self.reader, self.group):
            client.start()

    def write(self) -> None:
        for writer in self.writers:
            writer.going.set()

    def disturbed(self, what: str) -> None:
        self.witness.saw(Disturbed(self.witness.now_us(), what))

    def settle(self) -> None:
        """Begin no new writes; wait until all are acknowledged and every replica is in sync."""
        for writer in self.writers:
            writer.going.clear()
        until(lambda: not any(writer.waits for writer in self.writers), "what was sent is acknowledged")
        until(self.brokers.are_whole, "all replicas are in sync again")

    def judge(self, *, last: bool = False) -> list[Anomaly]:
        """Read everything, and check all events so far.

        The records read are added to the history if something is wrong, and at the end.
        """
        until_now = self.witness.told()
        unplaced = [place for writer in self.writers for place in writer.unplaced]
        scans = scan(self.brokers.way, self.witness)
        self._find(unplaced, scans)
        found = self.witness.judged(until_now, scans, senders_on_disk(self.brokers.of[1].disk.mount / "data"))
        if not any(writer.going.is_set() for writer in self.writers):
            found += [Anomaly("replicas-differ", place) for place in self.brokers.differing()]
        if found or last:
            self.witness.keep(scans)
        return found

    def _find(self, unplaced: list[tuple[LogKey, bytes]], scans: list[Scanned]) -> None:
        """Check that records acknowledged without an offset are somewhere in their log."""
        there = {(event.log, value) for event in scans for _, value in event.records}
        for log, value in unplaced:
            if (log, value) not in there:
                what = f"{value[:24]!r} was acknowledged without an offset, and is not in {TOPIC}-{log.partition}"
                self.witness.saw(Failed(self.witness.now_us(), what, "lost-write"))

    def finish(self) -> list[Anomaly]:
        """After the last healing: write to every partition, read everything, and check for the last time."""
        self.witness.saw(Healed(self.witness.now_us(), WITHIN_S * 1_000_000))
        self.prober.probe()
        until(self.prober.is_told, "every partition takes a write")
        self.settle()
        for client in (self.group, self.reader, *self.writers):
            client.stop()
        return self.judge(last=True)

    def stuck(self, why: Exception) -> list[Anomaly]:
        self.witness.saw(Failed(self.witness.now_us(), str(why), "stuck"))
        with contextlib.suppress(Exception):
            return [Anomaly("stuck", str(why)), *self.judge(last=True)]
        return [Anomaly("stuck", str(why))]

    def say(self, line: str) -> None:
        passed = int(time.monotonic() - self.began_s)
        print(f"[{passed // 60:3d}:{passed % 60:02d}] {line}", flush=True)


def put_away(brokers: list[Broker]) -> None:
    for broker in brokers:
        broker.kill()


def folder_of(seed: int, keep: Path) -> Path:
    """A new folder for this run."""
    folder = keep / f"faults-{seed}-{time.time_ns() // 1_000_000}"
    folder.mkdir(parents=True)
    return folder
