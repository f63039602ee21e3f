"""Rebuilds the table of accounts from their events, at any offset, with or without a snapshot.

python examples/event_sourcing/rebuild.py                 the table now
python examples/event_sourcing/rebuild.py --at 0:120,1:80 as it was at these offsets of the partitions
python examples/event_sourcing/rebuild.py --snapshot      keep the table, so that later runs begin there
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from accounts import EVENTS, Account, fold

from ottla.client import Admin, Consumer, Producer, TopicPartition, TopicTable
from ottla.client.model import LATEST, IsolationLevel

SNAPSHOTS = "account-snapshots"
Snapshot = dict[str, Any]


def snapshots(bootstrap: str) -> dict[int, Snapshot]:
    """The newest snapshot of each partition: the offset, and the accounts before it."""
    with Admin(bootstrap) as admin:
        if SNAPSHOTS not in admin.list_topics():
            return {}
    with TopicTable(SNAPSHOTS, bootstrap, key=int, value=json.loads) as kept:
        kept.wait_until_caught_up(60)
        return kept.snapshot()


def table_at(
    bootstrap: str, at: dict[int, int] | None = None, *, kept: dict[int, Snapshot] | None = None
) -> tuple[dict[str, Account], dict[int, int], int]:
    """The accounts at these offsets (None: now), the offsets, and the number of events that were read for it."""
    accounts: dict[str, Account] = {}
    begins: dict[TopicPartition, int] = {}
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(EVENTS, index) for index in sorted(consumer.cluster.topic(EVENTS).partitions)]
        found = consumer.cluster.list_offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
        ends = {each: found[each].offset if at is None else at.get(each.partition, 0) for each in partitions}
        for partition, end in ends.items():
            snapshot = (kept or {}).get(partition.partition, {"offset": 0, "accounts": {}})
            if snapshot["offset"] <= end:  # a later one says nothing of this offset
                accounts |= snapshot["accounts"]
                begins[partition] = snapshot["offset"]
        events = list(_events(consumer, {each: begins.get(each, 0) for each in partitions}, ends))
    return fold(accounts, iter(events)), {each.partition: end for each, end in ends.items()}, len(events)


def _events(
    consumer: Consumer, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> Iterator[tuple[str, Any]]:
    consumer.assign(list(begins))
    for partition, begin in begins.items():
        consumer.seek(partition, begin)
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        for record in consumer.poll(500):
            if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                yield (record.key or b"").decode(), json.loads(record.value or b"null")


def keep(bootstrap: str) -> int:
    """Write a snapshot of each partition; the number of accounts."""
    with Admin(bootstrap) as admin:
        if SNAPSHOTS not in admin.list_topics():
            admin.create_topic(SNAPSHOTS, 1, configs={"cleanup.policy": "compact"})
    _, ends, _ = table_at(bootstrap)
    count = 0
    with Producer(bootstrap) as producer:
        for partition, end in ends.items():
            mine, _, _ = table_at(bootstrap, {partition: end}, kept=snapshots(bootstrap))
            producer.produce(SNAPSHOTS, json.dumps({"offset": end, "accounts": mine}), str(partition))
            count += len(mine)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--at", help="PARTITION:OFFSET, with commas between; other partitions at 0")
    parser.add_argument("--snapshot", action="store_true")
    given = parser.parse_args()
    if given.snapshot:
        print(f"kept {keep(given.bootstrap)} accounts")
        return
    at = None if given.at is None else dict(tuple(map(int, each.split(":"))) for each in given.at.split(","))
    accounts, offsets, read = table_at(given.bootstrap, at, kept=snapshots(given.bootstrap))
    for name, account in sorted(accounts.items()):
        print(f"{name:8} {account['balance']:6}   after {account['version']} events")
    total = sum(account["balance"] for account in accounts.values())
    print(f"{len(accounts)} accounts hold {total} at {offsets}; {read} events were read for that")


if __name__ == "__main__":
    main()
