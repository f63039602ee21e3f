"""`make mirror-campaign`: a mirror between two brokers under kill -9 of the mirror and of both brokers.

Meanwhile one producer writes plainly and another in transactions, some of which it aborts. In the end each partition of
the target holds the committed records of the source in their order, once, and a thousand offsets of groups are
translated to the very record.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from tests.mirror.program import MirrorProgram
from tests.server.processes import OttlaProcess

from ottla.client import Admin, Cluster, CommittedOffset, ConsumedRecord, Producer, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.model import LATEST
from ottla.kernel.errors import ApiError
from ottla.testing.reading import read_topic

TOPICS = {"plain": 3, "transactions": 2}
GROUPS = 200
PATIENCE_S = 120.0


def compared(source: Sequence[ConsumedRecord], target: Sequence[ConsumedRecord]) -> list[str]:
    """A sentence for each partition whose mirror holds other records, or in another order."""
    differences: list[str] = []
    for partition in sorted({each.partition for each in (*source, *target)}):
        wanted = [_content(each) for each in source if each.partition == partition]
        found = [_content(each) for each in target if each.partition == partition]
        if wanted != found:
            lost, added = len(set(wanted) - set(found)), len(found) - len(set(found))
            differences.append(f"partition {partition}: {lost} lost, {added} doubled, {len(found)} for {len(wanted)}")
    return differences


def _content(record: ConsumedRecord) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


class Truth:
    """The offset at the target of the first record that is not before an offset of the source."""

    def __init__(self, source: Sequence[ConsumedRecord], target: Sequence[ConsumedRecord]) -> None:
        self._upstream: dict[int, list[int]] = {}
        self._downstream: dict[int, list[int]] = {}
        for records, offsets in ((source, self._upstream), (target, self._downstream)):
            for each in records:
                offsets.setdefault(each.partition, []).append(each.offset)

    def ends(self, partition: int) -> tuple[int, int]:
        """The first and the last offset at the source."""
        return self._upstream[partition][0], self._upstream[partition][-1]

    def of(self, partition: int, offset: int) -> int:
        downstream = self._downstream[partition]
        at = bisect_left(self._upstream[partition], offset)
        return downstream[at] if at < len(downstream) else downstream[-1] + 1


class Feeding:
    """Two producers on threads of their own, until `stop`."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._bootstrap, self._seed = bootstrap, seed
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._plain, self._transactions)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _plain(self) -> None:
        dice, number = random.Random(self._seed), 0
        with Producer(self._bootstrap, compression="zstd", linger_ms=2) as producer:
            while not self._stop.wait(0.01):
                for _ in range(dice.randrange(1, 60)):
                    producer.produce("plain", f"{number}", key=f"{number % 97}", partition=number % 3)
                    number += 1
            producer.flush()

    def _transactions(self) -> None:
        dice, number = random.Random(self._seed + 1), 0
        while not self._stop.is_set():
            try:
                with Producer(self._bootstrap, transactional_id="feed") as producer:
                    producer.init_transactions()
                    while not self._stop.wait(0.02):
                        producer.begin_transaction()
                        for _ in range(dice.randrange(1, 30)):
                            producer.produce("transactions", f"{number}", key="k", partition=number % 2)
                            number += 1
                        if dice.random() < 0.25:
                            producer.abort_transaction()
                        else:
                            producer.commit_transaction()
            except (ApiError, ClientError) as fault:  # a broker was killed meanwhile: begin anew
                print(f"the producer begins anew: {type(fault).__name__}", file=sys.stderr)


def program(source: str, target: str, log: Path) -> MirrorProgram:
    options = {"emit.heartbeats.enabled": "false", "sync.group.offsets.interval.seconds": "1"}
    settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    ends = ["--from", f"us={source}", "--to", f"eu={target}"]
    return MirrorProgram(log, *ends, "--topics", ",".join(TOPICS), "--sync-groups", *settings)


def run(kills: int, seed: int, folder: Path) -> list[str]:
    """One campaign; the differences that it found."""
    dice = random.Random(seed)
    sites = [OttlaProcess(folder / name).start() for name in ("us", "eu")]
    us, eu = (each.address for each in sites)
    with Admin(us) as admin:
        for topic, partitions in TOPICS.items():
            admin.create_topic(topic, partitions=partitions)
    mirror = program(us, eu, folder / "mirror.log")
    mirror.start()
    feeding = Feeding(us, seed)
    feeding.start()
    killed = {"mirror": 0, "source": 0, "target": 0}
    for _ in range(kills):
        time.sleep(dice.uniform(0.5, 3.0))  # between kills; nothing is judged by it
        victim = dice.choice(["mirror", "mirror", "source", "target"])
        killed[victim] += 1
        if victim == "mirror":
            mirror.kill()
            mirror.start()
        else:
            site = sites[victim == "target"]
            site.kill()
            site.start()
    feeding.stop()
    print(f"killed: {killed}", file=sys.stderr)
    try:
        return judge(us, eu, dice)
    finally:
        mirror.kill()
        for site in sites:
            site.stop()
            site.close()


def judge(us: str, eu: str, dice: random.Random) -> list[str]:
    """Compare topics and groups once the mirror has caught up."""
    differences: list[str] = []
    groups: dict[str, dict[TopicPartition, CommittedOffset]] = {f"group-{each}": {} for each in range(GROUPS)}
    truths: dict[str, Truth] = {}
    for topic, partitions in TOPICS.items():
        source = read_topic(us, topic, at_least=0, isolation_level="read_committed", timeout=PATIENCE_S)
        target = _caught_up(eu, f"us.{topic}", len(source))
        truths[topic] = truth = Truth(source, target)
        differences += [f"{topic}, {each}" for each in compared(source, target)]
        print(f"{topic}: {len(source)} records", file=sys.stderr)
        for offsets in groups.values():
            for index in range(partitions):
                first, last = truth.ends(index)
                offsets[TopicPartition(topic, index)] = CommittedOffset(dice.randrange(first, last + 2))
    with Cluster(us) as there, Cluster(eu) as here:
        for group, offsets in groups.items():
            there.commit_offsets(group, offsets)
        for group, offsets in groups.items():
            wanted = {
                TopicPartition(f"us.{each.topic}", each.partition): truths[each.topic].of(each.partition, at.offset)
                for each, at in offsets.items()
            }
            deadline = time.monotonic() + PATIENCE_S
            while (found := {each: at.offset for each, at in here.committed_offsets(group).items()}) != wanted:
                if time.monotonic() > deadline:
                    differences.append(f"{group}: {found} for {wanted}")
                    break
                time.sleep(0.2)
    return differences


def _caught_up(bootstrap: str, topic: str, count: int) -> list[ConsumedRecord]:
    """The records of a mirror once it has so many, and has had them for some seconds: none may follow."""
    read_topic(bootstrap, topic, at_least=count, isolation_level="read_uncommitted", timeout=PATIENCE_S)
    with Cluster(bootstrap) as cluster:
        before = None
        while (ends := cluster.list_offsets(cluster.partitions(topic), LATEST)) != before:
            before = ends
            time.sleep(3)
    return read_topic(bootstrap, topic, at_least=0, isolation_level="read_uncommitted", timeout=PATIENCE_S)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mirror-campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="mirror-campaign-") as made:
        differences = run(given.kills, given.seed, Path(made))
    print("\n".join(differences) or "no differences")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
