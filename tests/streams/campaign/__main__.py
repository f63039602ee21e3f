"""Runs topologies on Spark, kills their drivers with kill -9 at random moments, and compares committed results.

`make streams-campaign ARGS="--kills 20 --records 20000 --minutes 30"`. Each topology is run until its driver has been
killed so many times and has come to the ends of its topics. Then the results of each key must be those of the engine.

`make streams-campaign ARGS="--topologies 1000 --minutes 30"` makes topologies at random instead, and runs each one by
Kafka's own test driver and by the engine, in memory, on disk and through restarts. With `--on spark` each one runs on
Spark instead, in random cuts with a crash and a restart, and is held to the engine.

`make streams-campaign ARGS="--besieged --kills 12 --records 1000000"` runs sessions and joins of tables over three
brokers under kill -9 of every part, and compares with the engine and with Kafka's test driver.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.streams.campaign.at_random import campaign
from tests.streams.campaign.at_random_on_spark import campaign_on_spark
from tests.streams.campaign.besieged import besiege
from tests.streams.in_batches import built_over, by_key, cuts_of, expected, rows_of
from tests.streams.oracle import MISSING

from ottla.client import Admin, Producer
from ottla.client.model import LATEST, IsolationLevel
from ottla.testing import TestBroker
from ottla.testing.reading import read_topic

TOPOLOGIES = ("tables_outer", "session_close", "streams_outer", "hopping", "window_count_suppress", "grace_left")
OPTIONS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}


def main() -> int:
    """Run the campaign; 1 if results differ."""
    options = parsed()
    if options.topologies and options.on == "spark":
        with tempfile.TemporaryDirectory(prefix="ottla-streams-") as folder:
            return 1 if campaign_on_spark(options.topologies, options.minutes, options.seed, Path(folder)) else 0
    if options.topologies:
        if MISSING:
            print("Kafka's jars of Streams or javac are not here: run `tools/setup.sh streams-jars java`")
            return 1
        with tempfile.TemporaryDirectory(prefix="ottla-streams-") as folder:
            return 1 if campaign(options.topologies, options.minutes, options.seed, Path(folder)) else 0
    if options.besieged:
        return besieged(options)
    draw, deadline, faults = random.Random(options.seed), time.monotonic() + 60 * options.minutes, 0
    kills = [len(part) for part in _shares(list(range(options.kills)), len(options.topology))]
    with TestBroker(OPTIONS) as broker, tempfile.TemporaryDirectory(prefix="ottla-streams-") as folder:
        for name, share in zip(options.topology, kills, strict=True):
            faults += not survived(name, share, options.records, broker, Path(folder) / name, draw, deadline)
    return 1 if faults else 0


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make streams-campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of all drivers together")
    parser.add_argument("--records", type=int, default=5_000, help="for each topology")
    parser.add_argument("--minutes", type=float, default=30, help="no kill or topology begins after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--topologies", type=int, default=0, help="so many, made at random, in place of kills")
    parser.add_argument("--besieged", action="store_true", help="kill executors and brokers too")
    parser.add_argument("--master", default="local-cluster[2,1,1024]", help="of --besieged; default two executors")
    parser.add_argument("--on", choices=("kafka", "spark"), default="kafka", help="what --topologies are held to")
    parser.add_argument("--topology", action="append", choices=TOPOLOGIES, help="one of them; repeatable")
    options = parser.parse_args()
    options.topology = options.topology or list(TOPOLOGIES)
    return options


def besieged(options: argparse.Namespace) -> int:
    """Run one application under kills of all parts; its folder stays where results differ."""
    folder, began = Path(tempfile.mkdtemp(prefix="ottla-streams-")), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    faults = besiege(options.records, options.kills, options.seed, options.master, folder, tell)
    print("".join(f"DIFFERENCE {fault}\n" for fault in faults) or "no differences")
    if faults:
        print(f"logs and state are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def survived(
    name: str, kills: int, records: int, broker: TestBroker, folder: Path, draw: random.Random, deadline: float
) -> bool:
    """Run one topology through its kills; True if its results are the engine's, once each."""
    names = {letter: f"{name}-{letter}" for letter in ("a", "b", "c", "out")}
    topics = [letter for letter in "ab" if names[letter] in built_over(name, names).topics()]
    rows = rows_of(draw.randrange(1_000_000), "".join(topics), records)
    with Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
        for topic in names.values():
            admin.create_topic(topic, 1, configs={"retention.ms": "-1"})  # the records' times are of 1970
        for letter, key, value, timestamp in rows:
            producer.produce(names[letter], value, key, timestamp=timestamp)
    command = [sys.executable, "-m", "tests.streams.campaign.driver", name, broker.bootstrap_servers, str(folder),
               json.dumps(names), str(max(1, records // 20))]  # fmt: skip
    killed = 0
    while True:
        driver = subprocess.Popen(command, env=os.environ, start_new_session=True)
        try:
            if killed < kills and time.monotonic() < deadline:
                _wait_for_batches(driver, folder, draw.randrange(1, 6))
                time.sleep(draw.random())  # somewhere in a batch
                killed += driver.poll() is None
            else:
                driver.wait(600)
        finally:
            ended = driver.poll()
            if ended is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
        if ended is not None:
            break
    with Admin(broker.bootstrap_servers) as admin:
        broker.wait_for(lambda: _settled(admin, names["out"]), timeout=180, what="the last open transaction ended")
    found = read_topic(
        broker.bootstrap_servers, names["out"], at_least=0, isolation_level="read_committed", timeout=120
    )
    results = [((r.key or b"").decode(), None if r.value is None else r.value.decode(), r.timestamp) for r in found]
    wanted = expected(built_over(name, names), names, rows, cuts_of(folder, names))
    same = ended == 0 and by_key(results) == by_key(wanted)
    for key, mine in by_key(results).items():
        theirs = by_key(wanted).get(key, [])
        at = next((at for at, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other), None)
        if mine != theirs:
            print(f"key {key}: {len(mine)} and {len(theirs)} results; the first that differs is {at}", flush=True)
    verdict = "equal" if same else f"DIFFERENT, and the last driver ended with {ended}"
    print(f"{name}: {records} records, {killed} kills, {len(results)} results of {len(wanted)}: {verdict}", flush=True)
    return same


def _settled(admin: Admin, topic: str) -> bool:
    """True once no transaction is open: readers of committed records see all of the topic."""
    partitions = admin.cluster.partitions(topic)
    ends = admin.cluster.list_offsets(partitions, LATEST)
    return admin.cluster.list_offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED) == ends


def _wait_for_batches(driver: subprocess.Popen[bytes], folder: Path, more: int) -> None:
    """Wait until so many batches more have begun, or the driver has ended."""
    offsets = folder / "offsets"

    def begun() -> int:
        return sum(path.name.isdecimal() for path in offsets.iterdir()) if offsets.exists() else 0

    least = begun() + more
    while driver.poll() is None and begun() < least:
        time.sleep(0.05)


def _shares(items: list[int], count: int) -> list[list[int]]:
    return [items[at::count] for at in range(count)]


if __name__ == "__main__":
    sys.exit(main())
