"""Watches a broker under attack: its loop, its memory, and a client that must keep working."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from raw_connection import RawConnection

from ottla.messages.api_versions import ApiVersionsRequest

CANARY_TOPIC = "canary"
_API_VERSIONS = 18


class Loop(threading.Thread):
    """Pings the broker without a pause and reads how much CPU its loop's thread spent while a ping was under way.

    The kernel counts that in nanoseconds (schedstat). A ping waits for the present turn to end and for the one that
    serves it, so the figure is never below the longest turn, and it does not include other processes.
    """

    def __init__(self, bootstrap: str, pid: int) -> None:
        super().__init__(name="loop probe", daemon=True)
        self._stat = Path(f"/proc/{pid}/task/{pid}/schedstat")
        self._address = bootstrap
        self._over = threading.Event()
        self.longest_ms = 0.0
        self.pings = 0
        self.doing = ""
        """The attack under way, as the attackers name it; `during` is its value at the longest turn."""
        self.during = ""
        self.failure: str | None = None

    def run(self) -> None:
        try:
            with RawConnection(self._address, timeout=60.0) as connection:
                while not self._over.is_set():
                    self._ping(connection)
        except Exception as fault:
            self.failure = f"ping {self.pings}: {type(fault).__name__} {fault}"

    def _ping(self, connection: RawConnection) -> None:
        before, doing = self._spent_ns(), self.doing
        connection.ask(_API_VERSIONS, 0, ApiVersionsRequest())
        spent_ms = (self._spent_ns() - before) / 1e6
        self.pings += 1
        if spent_ms > self.longest_ms:
            self.longest_ms, self.during = spent_ms, f"{doing} … {self.doing}"
        time.sleep(0.001)

    def _spent_ns(self) -> int:
        return int(self._stat.read_text().split()[0])

    def stop(self) -> None:
        self._over.set()
        self.join(90)


class Canary(threading.Thread):
    """An unmodified client that produces with `acks=all` and reads everything back, in order."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="canary", daemon=True)
        self._over = threading.Event()
        self.failure: str | None = None
        self.delivered = 0
        self.consumed = 0
        settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 30000})
        self._consumer = Consumer({**settings, "group.id": "canary", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(CANARY_TOPIC, 0, 0)])

    def run(self) -> None:
        try:
            while not self._over.is_set() and self.failure is None:
                self._producer.produce(
                    CANARY_TOPIC, str(self.delivered).encode(), partition=0, on_delivery=self._reported
                )
                if self._producer.flush(30) != 0:
                    self.failure = f"record {self.delivered} was not acknowledged within 30 s"
                self._consume(0.01)
            deadline = time.monotonic() + 300
            while self.failure is None and self.consumed < self.delivered:
                if time.monotonic() > deadline:
                    self.failure = f"consumed {self.consumed} of {self.delivered}"
                self._consume(0.1)
        except Exception as fault:
            self.failure = f"{type(fault).__name__} {fault}"
        finally:
            self._consumer.close()

    def _reported(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failure = f"record {self.delivered}: {error}"
        self.delivered += 1

    def _consume(self, within_s: float) -> None:
        for message in self._consumer.consume(100, within_s):
            error = message.error()
            if error is not None:
                if error.code() not in (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT):
                    self.failure = f"consuming: {error}"
            elif message.value() != str(self.consumed).encode():
                self.failure = f"expected record {self.consumed}, got {message.value()!r}"
            else:
                self.consumed += 1

    def stop(self) -> None:
        self._over.set()
        self.join(90)


def peak_mib(pid: int) -> float:
    """The largest resident set that the process had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
