"""A broker killed under a producer and a consumer of ours: every record arrives once, in order, and is read once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.produce.settings import ProducerSettings

RECORDS = 1_500
KILLS = 2


class Broker:
    """`ottla start` on a directory, on the same port each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.start()

    def start(self) -> None:
        options = ["--data", str(self._folder), "--port", "0", "--http-port", "0"]
        options += ["--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=2"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "start", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.bootstrap = self._process.stdout.readline().split()[-1]

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


def test_every_record_arrives_once_and_in_order_through_kills(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topic("t", 2, 1)
        settings = ConsumerSettings(
            group_id="g", auto_offset_reset="earliest", heartbeat_interval_ms=200, auto_commit_interval_ms=100
        )
        seen: dict[int, list[int]] = {0: [], 1: []}
        ended = threading.Event()

        def read() -> None:
            with Consumer(broker.bootstrap, consumer=settings) as consumer:
                consumer.subscribe(["t"])
                while not ended.is_set() and sum(map(len, seen.values())) < RECORDS:
                    for record in consumer.poll(200):
                        seen[record.partition].append(int(record.value or b"-1"))

        reader = threading.Thread(target=read)
        reader.start()
        with Producer(broker.bootstrap, producer=ProducerSettings(linger_ms=1, batch_size=400)) as producer:
            deliveries = []
            for number in range(RECORDS):
                deliveries.append(producer.produce("t", str(number), partition=number % 2))
                if number in (RECORDS // 3, 2 * RECORDS // 3):
                    deliveries[number // 2].result(30)
                    broker.kill()
                    broker.start()
            producer.flush(60)
            places = [delivery.result() for delivery in deliveries]
        reader.join(60)
        ended.set()
        assert not reader.is_alive()
    finally:
        broker.kill()
    wanted = {partition: list(range(partition, RECORDS, 2)) for partition in (0, 1)}
    for partition, values in wanted.items():
        offsets = [places[value].offset for value in values]
        assert offsets == list(range(len(values))), "once, in order, and acknowledged at the offset that it has"
        assert list(dict.fromkeys(seen[partition])) == values, "read in order; again only what was not committed yet"
