"""Measures three brokers with many partitions of three replicas: creating them, and losing a broker.

    python -m bench.many_replicas                      2,000 partitions in 20 topics
    python -m bench.many_replicas --partitions 100     fewer
    python -m bench.many_replicas --out FILE           the figures as JSON too

Every partition has a replica on every broker, min.insync.replicas=2. Five things are measured: how fast partitions are
made, until Metadata shows a leader and the full in-sync set for all, and until all have taken a record; what the
idle brokers take of the processor; how long a broker takes to stop and what a producer notices of it; how long
until it is back with every replica in sync; and the same for kill -9. An idempotent confluent-kafka producer with its
defaults writes a record to every partition at the moment of the signal, and some hundred a second afterwards.

On a machine that has other things to do, the processor time of the brokers says more than the clock.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic
from tests.ports import free_port

from bench.brokers import answers_metadata, family, process_cpu_seconds

BROKERS = (1, 2, 3)
WITHIN_S = 300.0
_PER_TOPIC = 100
_IDLE_S = 20.0
_LOOK_EVERY_S = 0.1
_BETWEEN_S = 0.005
_QUIET_AFTER_S = 2.0
Place = tuple[str, int]


class Brokers:
    """Three processes of `ottla start` on one store."""

    def __init__(self, folder: Path, options: list[str]) -> None:
        self._folder = folder
        self._options = options
        self.ports = {number: free_port() for number in BROKERS}
        self.servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        """Start a broker; return once it answers."""
        folder = self._folder / str(number)
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "ottla", "start", "--id", str(number), "--data", str(folder / "data")]
        command += ["--port", str(self.ports[number]), "--http-port", "0", "--join", f"sqlite:{self._folder / 'store'}"]
        for option in ("min.insync.replicas=2", "offsets.topic.replication.factor=3", *self._options):
            command += ["--set", option]
        with (folder / "out.log").open("ab") as log:
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: answers_metadata(self.ports[number]))

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def cpu_seconds(self) -> dict[int, float]:
        """The processor time of each broker that runs."""
        return {
            number: sum(process_cpu_seconds(pid) for pid in family(process.pid))
            for number, process in self.processes.items()
            if process.poll() is None
        }


class Writing:
    """A producer in its own thread; notes when each record was sent and acknowledged."""

    def __init__(self, servers: str, places: list[Place]) -> None:
        self._places = places
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        self.sent = 0
        self.failed = 0
        self.acknowledged: list[tuple[Place, float, float]] = []
        """(partition, time sent, time acknowledged) of each record."""
        self._burst = threading.Event()
        self._going = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def to_every_partition(self) -> None:
        self._burst.set()

    def fills(self) -> None:
        """Wait until each partition has taken a record."""
        self.to_every_partition()
        until(lambda: {place for place, _, _ in list(self.acknowledged)} == set(self._places))

    def _run(self) -> None:
        at = 0
        while self._going:
            if self._burst.is_set():
                self._burst.clear()
                for place in self._places:
                    self._send(place)
            self._send(self._places[at])
            at = (at + 1) % len(self._places)
            self._producer.poll(_BETWEEN_S)
        self._producer.flush(60)

    def _send(self, place: Place) -> None:
        sent = time.monotonic()

        def told(error: KafkaError | None, _: object) -> None:
            if error is None:
                self.acknowledged.append((place, sent, time.monotonic()))
            else:
                self.failed += 1

        self._producer.produce(place[0], b"x" * 100, partition=place[1], on_delivery=told)
        self.sent += 1

    def caught_up(self) -> bool:
        return len(self.acknowledged) + self.failed >= self.sent - 10

    def stop(self) -> None:
        self._going = False
        self._thread.join()


def until(holds: Callable[[], object], every_s: float = _LOOK_EVERY_S) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError("the condition did not hold in time")
        time.sleep(every_s)


class Run:
    """One run of the measurement; it fills `figures`."""

    def __init__(self, folder: Path, topics: list[NewTopic], options: list[str]) -> None:
        self.figures: dict[str, float] = {}
        self._topics = topics
        self._partitions = sum(topic.num_partitions for topic in topics)
        self._brokers = Brokers(folder, options)

    def run(self) -> None:
        try:
            for number in BROKERS:
                self._brokers.start(number)
            self._admin = AdminClient({"bootstrap.servers": self._brokers.servers, "log_level": 0})
            until(lambda: len(self._seen().brokers) == len(BROKERS))
            places = [(topic.topic, index) for topic in self._topics for index in range(topic.num_partitions)]
            self._make(places)
            self._idle()
            writing = Writing(self._brokers.servers, places)
            try:
                writing.fills()
                self._lose(writing, signal.SIGTERM, 1, "stop")
                self._lose(writing, signal.SIGKILL, 2, "kill")
            finally:
                writing.stop()
            self.figures["records failed"] = writing.failed
        finally:
            self._brokers.stop()

    def _say(self, name: str, value: float) -> None:
        self.figures[name] = round(value, 3)
        print(f"{name:44} {value:10.2f}", flush=True)

    def _seen(self) -> ClusterMetadata:
        return self._admin.list_topics(timeout=30)

    def _complete(self, seen: ClusterMetadata) -> bool:
        whole = 0
        for topic in self._topics:
            found = seen.topics.get(topic.topic)
            for partition in () if found is None else found.partitions.values():
                whole += partition.leader > 0 and len(partition.isrs) == len(BROKERS)
        return whole == self._partitions

    def _make(self, places: list[Place]) -> None:
        began, before = time.monotonic(), self._brokers.cpu_seconds()
        for made in self._admin.create_topics(self._topics, operation_timeout=60, request_timeout=120).values():
            made.result(120)
        self._say("created: all topics answered, s", time.monotonic() - began)
        until(lambda: self._complete(self._seen()))
        self._say("created: every in-sync set full, s", time.monotonic() - began)
        writing = Writing(self._brokers.servers, places)
        try:
            writing.fills()
        finally:
            writing.stop()
        took = time.monotonic() - began
        self._say("created: a record in every partition, s", took)
        self._say("created: partitions in a second, to there", self._partitions / took)
        self._burned("created", before)

    def _burned(self, name: str, before: dict[int, float]) -> None:
        """Report the highest processor time among the brokers that ran throughout."""
        after = self._brokers.cpu_seconds()
        self._say(
            f"{name}: processor time of a broker, s", max(after[one] - before[one] for one in before if one in after)
        )

    def _idle(self) -> None:
        time.sleep(_QUIET_AFTER_S)
        before = self._brokers.cpu_seconds()
        time.sleep(_IDLE_S)
        after = self._brokers.cpu_seconds()
        for number in BROKERS:
            self._say(f"idle: broker {number}, % of a core", 100 * (after[number] - before[number]) / _IDLE_S)

    def _lose(self, writing: Writing, how: signal.Signals, number: int, name: str) -> None:
        """End a broker, measure how long writers wait, and bring it back."""
        until(writing.caught_up)
        seen = self._seen()
        led = {
            (topic.topic, index)
            for topic in self._topics
            for index, partition in seen.topics[topic.topic].partitions.items()
            if partition.leader == number
        }
        process = self._brokers.processes[number]
        began, before = time.monotonic(), self._brokers.cpu_seconds()
        process.send_signal(how)
        writing.to_every_partition()
        while process.poll() is None:
            time.sleep(0.005)
        self._say(f"{name}: the process has ended after, s", time.monotonic() - began)

        def since() -> dict[Place, float]:
            found: dict[Place, float] = {}
            for place, sent, acknowledged in list(writing.acknowledged):
                if sent >= began:
                    found.setdefault(place, acknowledged - began)
            return found

        until(lambda: len(since()) == self._partitions)
        until(writing.caught_up)
        first = since()
        if led:
            self._say(f"{name}: first record of its {len(led)} partitions, s", min(first[place] for place in led))
        self._say(f"{name}: a record to every partition, s", max(first.values()))
        slowest = max(done - sent for _, sent, done in list(writing.acknowledged) if done >= began)
        self._say(f"{name}: longest wait of any record, s", slowest)
        self._burned(name, before)
        began, before = time.monotonic(), {number: 0.0}
        self._brokers.start(number)
        self._say(f"{name}: started again and answering, s", time.monotonic() - began)
        until(lambda: self._complete(self._seen()))
        self._say(f"{name}: every in-sync set full again, s", time.monotonic() - began)
        self._burned(f"{name}: come back", before)
        time.sleep(_QUIET_AFTER_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--per-topic", type=int, default=_PER_TOPIC, help=f"of a topic (default {_PER_TOPIC})")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of all brokers")
    parser.add_argument("--data", type=Path, help="a folder to keep, instead of one that goes away")
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON")
    options = parser.parse_args()
    most = min(options.per_topic, options.partitions)
    topics = [
        NewTopic(f"many-{number}", num_partitions=min(most, options.partitions - at), replication_factor=3)
        for number, at in enumerate(range(0, options.partitions, most))
    ]
    folder = options.data or Path(tempfile.mkdtemp(prefix="ottla-many-"))
    folder.mkdir(exist_ok=True)
    run = Run(folder, topics, options.set)
    try:
        run.run()
    finally:
        if options.data is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.out is not None:
        options.out.write_text(json.dumps(run.figures, indent=1) + "\n")
    return 1 if run.figures["records failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
