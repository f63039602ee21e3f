"""Clients that bench.failover watches while leaders die: what each got through, and when.

Producers send a value `WRITER.NUMBER`, so that one partition takes the records of several of them. Apache Kafka's own
VerifiableProducer and VerifiableConsumer tell in lines of JSON what came through, each with the time.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

from bench.brokers import kafka_libs
from bench.clusters import until

EVERY_S = 0.002
_JAVA_A_SECOND = 250
_ENOUGH = 200
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_ACKNOWLEDGED = "producer_send_success"
_FAILED = "producer_send_error"
_READ = "record_data"


class Watched:
    """A client: the times at which records came through, and for producers which were acknowledged and which failed."""

    name = ""
    writes = True

    def __init__(self) -> None:
        self.times: list[float] = []
        """Seconds since the epoch."""
        self.acknowledged: list[str] = []
        self.failed = 0

    def goes_on(self) -> None:
        """Wait until enough further records have come through for a steady rate."""
        enough = len(self.times) + _ENOUGH
        until(lambda: len(self.times) >= enough)

    def is_back(self, since: float) -> bool:
        """True if records have come through half a second after that time."""
        return any(at > since + 0.5 for at in self.times[-1:])

    def longest_gap_s(self, since: float) -> float:
        times = [at for at in list(self.times) if at >= since]
        return max(later - earlier for earlier, later in pairwise(times))

    def before_a_death(self) -> None:
        """Get ready for the next one."""

    def stop(self) -> None:
        """Stop, once all that was sent is acknowledged or has failed."""
        raise NotImplementedError

    def _came_through(self, at: float, value: str) -> None:
        self.acknowledged.append(value)
        self.times.append(at)


class Librdkafka(Watched):
    """An idempotent confluent-kafka producer with its defaults, which lives as long as the run."""

    name = "producer"

    def __init__(self, servers: str, topic: str, writer: int, options: dict[str, str]) -> None:
        super().__init__()
        self._servers, self._topic, self._writer, self._options = servers, topic, writer, options
        self._sent = 0
        self._begin()

    def _begin(self) -> None:
        self._going = True
        settings: dict[str, Any] = {"bootstrap.servers": self._servers, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer(settings | self._options)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._going:
            value = f"{self._writer}.{self._sent}"
            self._producer.produce(self._topic, value, on_delivery=lambda error, _, sent=value: self._told(error, sent))
            self._sent += 1
            self._producer.poll(EVERY_S)
        self._producer.flush(60)

    def _told(self, error: KafkaError | None, value: str) -> None:
        if error is not None:
            self.failed += 1
            return
        self._came_through(time.time(), value)

    def stop(self) -> None:
        self._going = False
        self._thread.join()


class FreshLibrdkafka(Librdkafka):
    """The same, with a new producer before each death."""

    name = "new producer"

    def before_a_death(self) -> None:
        self.stop()
        self._begin()


class LibrdkafkaConsumer(Watched):
    """A confluent-kafka consumer of a group, with its defaults."""

    name = "consumer"
    writes = False

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        self._going = True
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "watched", "log_level": 0})
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._going:
            message: Message | None = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.times.append(time.time())
        self._consumer.close()

    def stop(self) -> None:
        self._going = False
        self._thread.join()


class _Java(Watched):
    """A program of Apache Kafka's tools; a thread reads its lines."""

    def __init__(self, program: str, *arguments: str) -> None:
        super().__init__()
        command = ["java", *_JAVA, "-cp", f"{kafka_libs()}/*", f"org.apache.kafka.tools.{program}", *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["name"] == _ACKNOWLEDGED:
                self._came_through(event["timestamp"] / 1000, event["value"])
            elif event["name"] == _READ:
                self.times.append(event["timestamp"] / 1000)
            elif event["name"] == _FAILED:
                self.failed += 1

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._thread.join()


class JavaProducer(_Java):
    """Apache Kafka's Java producer with its defaults: VerifiableProducer, whose `retries=0` is taken back."""

    name = "Java producer"

    def __init__(self, servers: str, topic: str, writer: int, folder: Path) -> None:
        settings = folder / "producer.properties"
        settings.write_text("retries=2147483647\n")
        super().__init__(*_producing(servers, topic, writer), "--command-config", str(settings))


class JavaProducerOnce(_Java):
    """VerifiableProducer as it is: it tries each record once, so that every wrong answer is a failure."""

    name = "Java producer, no retries"

    def __init__(self, servers: str, topic: str, writer: int) -> None:
        super().__init__(*_producing(servers, topic, writer))


class JavaConsumer(_Java):
    """Apache Kafka's VerifiableConsumer, which waits for a commit after each poll."""

    name = "Java consumer"
    writes = False
    group = "watched-java"
    more: tuple[str, ...] = ()

    def __init__(self, servers: str, topic: str, folder: Path, options: dict[str, str]) -> None:
        settings = folder / f"{self.group}.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
        where = ("--bootstrap-server", servers, "--topic", topic, "--group-id", self.group)
        super().__init__("VerifiableConsumer", *where, "--command-config", str(settings), "--verbose", *self.more)


class JavaAutoConsumer(JavaConsumer):
    """The same with `enable.auto.commit`, Java's default: it commits beside its polls and waits for no answer."""

    name = "Java consumer, auto commit"
    group = "watched-java-auto"
    more = ("--enable-autocommit",)


def _producing(servers: str, topic: str, writer: int) -> tuple[str, ...]:
    where = ("--bootstrap-server", servers, "--topic", topic)
    return "VerifiableProducer", *where, "--throughput", str(_JAVA_A_SECOND), "--value-prefix", str(writer)


def clients(
    names: Sequence[str], servers: str, topic: str, folder: Path, options: dict[str, str], java: dict[str, str]
) -> Iterator[Watched]:
    """Start the clients with these names, one by one; `options` are of librdkafka's producers, `java` of consumers."""
    made: dict[str, Callable[[int], Watched]] = {
        "producer": lambda number: Librdkafka(servers, topic, number, options),
        "new-producer": lambda number: FreshLibrdkafka(servers, topic, number, options),
        "consumer": lambda _: LibrdkafkaConsumer(servers, topic),
        "java-producer": lambda number: JavaProducer(servers, topic, number, folder),
        "java-producer-once": lambda number: JavaProducerOnce(servers, topic, number),
        "java-consumer": lambda _: JavaConsumer(servers, topic, folder, java),
        "java-consumer-auto": lambda _: JavaAutoConsumer(servers, topic, folder, java),
    }
    for number, name in enumerate(names):
        yield made[name](number)


NAMES = (
    "producer", "new-producer", "consumer",
    "java-producer", "java-producer-once", "java-consumer", "java-consumer-auto",
)  # fmt: skip
