"""Records produced one at a time by `ottla.client`, beside confluent-kafka and kafka-python.

`python -m bench.client_single` starts a broker of ours on a disk and drives it from processes of their own, one client
after the other, as often as `--rounds` says. Each client has its own defaults but for the room in its queue.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.brokers import OttlaBroker

RECORDS, VALUE_BYTES, ROUNDS = 100_000, 100, 5
TOPIC, WARM_UP = "single", 1_000

Produce = Callable[[int], None]


def ottla_client(address: str, value: bytes) -> Produce:
    """Our own blocking producer."""
    from ottla.client import Producer

    producer = Producer(address)

    def produce(count: int) -> None:
        for _ in range(count):
            producer.produce(TOPIC, value)
        producer.flush()

    return produce


def confluent_kafka(address: str, value: bytes) -> Produce:
    """librdkafka under Python; `poll` serves its delivery reports, as its guide asks for."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "queue.buffering.max.messages": 2 * RECORDS})

    def produce(count: int) -> None:
        for _ in range(count):
            producer.produce(TOPIC, value)
            producer.poll(0)
        producer.flush()

    return produce


def kafka_python(address: str, value: bytes) -> Produce:
    """The client in pure Python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address)

    def produce(count: int) -> None:
        for _ in range(count):
            producer.send(TOPIC, value)
        producer.flush()

    return produce


CLIENTS = {"ottla.client": ottla_client, "confluent-kafka": confluent_kafka, "kafka-python": kafka_python}


def drive(client: str, address: str, records: int) -> None:
    """Print records a second and microseconds of processor time a record, of this process."""
    produce = CLIENTS[client](address, b"x" * VALUE_BYTES)
    produce(WARM_UP)
    began, busy = time.perf_counter(), time.process_time()
    produce(records)
    took, busy = time.perf_counter() - began, time.process_time() - busy
    print(records / took, busy / records * 1e6)


def measured(client: str, address: str, records: int) -> tuple[float, float]:
    """One run in a process of its own: records a second, microseconds of processor time a record."""
    command = [sys.executable, "-m", "bench.client_single", "--drive", client, address, "--records", str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    rate, busy = done.stdout.split()
    return float(rate), float(busy)


def compare(address: str, records: int, rounds: int) -> dict[str, tuple[float, float]]:
    """The median rate and processor time of each client; the clients take turns, so that a busy hour hits all."""
    runs: dict[str, list[tuple[float, float]]] = {client: [] for client in CLIENTS}
    for _ in range(rounds):
        for client, found in runs.items():
            found.append(measured(client, address, records))
    return {
        client: (statistics.median(rate for rate, _ in found), statistics.median(busy for _, busy in found))
        for client, found in runs.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all clients and print their rates, with the ratio of ours to each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--drive", nargs=2, metavar=("CLIENT", "ADDRESS"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.drive:
        drive(*given.drive, given.records)
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = OttlaBroker(Path(folder))
        broker.start()
        try:
            found = compare(broker.address, given.records, given.rounds)
        finally:
            broker.stop()
    ours = found["ottla.client"][0]
    print(f"{given.records} records of {VALUE_BYTES} bytes, one at a time, median of {given.rounds}")
    for client, (rate, busy) in found.items():
        print(
            f"{client:16} {rate:9,.0f}/s  {busy:6.2f} us of processor time a record  ours is {ours / rate:.2f}x of it"
        )


if __name__ == "__main__":
    main()
