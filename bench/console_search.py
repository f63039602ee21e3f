"""Searches a large topic through the console while records are produced: `python -m bench.console_search`.

`--megabytes N` (2,000) of records of 1,000 bytes, some of which hold the text that is looked for; the console runs
beside the broker, as `ottla start --console-port` has it. Single records are produced with acks=1, one after the other,
before the search and while it goes on. Exits with 1 if a hit is missing, or if the 99th percentile of a produce is more
than twice as high meanwhile.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import ROOT, OttlaBroker, free_port
from bench.rig import driven

TOPIC, LOAD = "searched", "load"
PARTITIONS = 4
RECORD_BYTES = 1_000
NEEDLE = "needle"
EVERY = 4_001
"""One record of so many holds the text."""
MOST_RATIO = 2.0
PRODUCED, WARMED = 5_000, 500
READY_S = 60.0


class BrokerWithConsole(OttlaBroker):
    """`ottla start --console-port`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.console_port = free_port()

    def command(self) -> list[str]:
        return [*super().command(), "--console-port", str(self.console_port)]


@dataclass
class Found:
    """The events of a search, put together."""

    places: set[tuple[int, str]] = field(default_factory=set)
    looked_at: int = 0
    told: int = 0
    """Times at which the progress was told."""
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main() -> int:
    """Fill, measure, search and measure again; print one line each."""
    parser = argparse.ArgumentParser(prog="python -m bench.console_search", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2_000)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="search-", dir=options.folder))
    broker = BrokerWithConsole(folder / "broker")
    broker.start()
    try:
        records = options.megabytes * 1_000_000 // RECORD_BYTES
        wanted = fill(broker.address, records)
        print(f"{records:,} records of {RECORD_BYTES:,} bytes, {len(wanted):,} with the text", flush=True)
        url = f"http://127.0.0.1:{broker.console_port}"
        wait_for(url)
        alone = [p99_us(broker) for _ in range(3)]
        with ThreadPoolExecutor(1) as pool:
            searching = pool.submit(search, url)
            meanwhile = [p99_us(broker)]
            while not searching.done():
                meanwhile.append(p99_us(broker))
            found = searching.result()
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return report(wanted, found, records, alone, meanwhile[:-1] or meanwhile)


def report(wanted: set[tuple[int, str]], found: Found, records: int, alone: list[float], meanwhile: list[float]) -> int:
    """Print what was found and how long single records took; 1 if either is not as wanted."""
    ratio = median(meanwhile) / median(alone)
    rate = records * RECORD_BYTES / 1e6 / found.seconds
    looked_at = f"{found.looked_at:,} offsets, progress told {found.told} times"
    print(f"search     {found.seconds:.1f} s, {rate:.0f} MB/s, {looked_at}")
    print(f"hits       {len(found.places & wanted):,} of {len(wanted):,}, {len(found.places - wanted):,} others")
    print(f"produce    p99 {median(alone):.0f} µs before, {median(meanwhile):.0f} µs meanwhile: {ratio:.2f} times")
    for fault in found.faults:
        print(fault)
    good = found.places == wanted and found.looked_at == records and not found.faults and ratio <= MOST_RATIO
    return 0 if good else 1


def fill(address: str, records: int) -> set[tuple[int, str]]:
    """Write the topics; the partition and offset of each record that holds the text."""
    admin = AdminClient({"bootstrap.servers": address})
    for outcome in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic(LOAD, 1, 1)]).values():
        outcome.result(30)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 1_000_000})
    wanted: set[tuple[int, str]] = set()

    def note(_: object, message: Any) -> None:
        wanted.add((message.partition(), str(message.offset())))

    filler = "x" * RECORD_BYTES
    for number in range(records):
        holds = number % EVERY == EVERY // 2
        head = f'{{"id": {number}, "text": "{NEEDLE if holds else "straw"}", "rest": "'
        value = head + filler[len(head) + 2 :] + '"}'
        while True:
            try:
                producer.produce(
                    TOPIC, value.encode(), partition=number % PARTITIONS, on_delivery=note if holds else None
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(300):
        raise RuntimeError("not every record was acknowledged")
    return wanted


def wait_for(url: str) -> None:
    end = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def search(url: str) -> Found:
    """Search the whole topic, going on at each pause, as a reader of the page does."""
    found, began = Found(), time.monotonic()
    query = urlencode({"topic": TOPIC, "text": NEEDLE, "from": "oldest"})
    with urllib.request.urlopen(f"{url}/api/v1/messages?{query}", timeout=60) as answer:
        name = json.load(answer)["search"]
    last: tuple[str, dict[str, Any]] = ("pause", {})
    while last[0] == "pause":
        for last in events(f"{url}/live/search?id={name}"):
            told = last[1]
            for each in told.get("records", ()):
                found.places.add((each["partition"], each["offset"]))
            if "looked_at" in told:
                found.looked_at, found.faults = told["looked_at"], told["faults"]
                found.told += 1
    if last[0] != "end":
        found.faults = [*found.faults, f"the search ended with {last[0]}: {last[1]}"]
    found.seconds = time.monotonic() - began
    return found


def events(address: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Server-sent events by name."""
    with urllib.request.urlopen(address, timeout=600) as stream:
        name = ""
        for line in stream:
            head, _, rest = line.decode().rstrip("\n").partition(": ")
            if head == "event":
                name = rest
            elif head == "data":
                yield name, json.loads(rest)


def p99_us(broker: OttlaBroker) -> float:
    """The 99th percentile of single records, one after the other."""
    return driven("latency", **broker.client, topic=LOAD, records=PRODUCED, warmup=WARMED, acks="1")["p99_us"]


if __name__ == "__main__":
    sys.exit(main())
