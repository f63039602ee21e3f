"""Compares a lake's final content with what was acknowledged: as sets, with every row once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.lake.campaign.meaning import digest, meaning_of_row
from tests.lake.campaign.places import Place
from tests.lake.campaign.producing import Acknowledged, Feed, read_partition
from tests.lake.campaign.topics import Topic


@dataclass
class Verdict:
    """The verdict on one lake."""

    rows: int = 0
    dead: int = 0
    differences: list[str] = field(default_factory=list)


def judge(place: Place, kind: str, topics: Sequence[Topic], feed: Feed, bootstrap: str, dead_letter: str) -> Verdict:
    """Compare rows, dead letters and the output of `ottla lake where`."""
    verdict = Verdict()
    for topic in topics:
        found = _rows(place, kind, topic)
        for partition in range(topic.partitions):
            told, rows = feed.acknowledged[topic.name, partition], found.get(partition, [])
            verdict.rows += len(rows)
            verdict.differences += _row_differences(f"{topic.name}-{partition}", rows, told)
    poison = {
        (name, partition, offset)
        for (name, partition), told in feed.acknowledged.items()
        for offset in told.poison
        if any(topic.name == name for topic in topics)
    }
    verdict.dead = len(poison)
    verdict.differences += _letter_differences(bootstrap, dead_letter, poison, feed)
    verdict.differences += _where_differences(place, kind, topics, feed)
    return verdict


def _rows(place: Place, kind: str, topic: Topic) -> dict[int, list[tuple[int, int]]]:
    """Partition -> (offset, meaning) of each row in the lake."""
    found: dict[int, list[tuple[int, int]]] = {}
    for batch in place.batches(kind, topic.name):
        for row in batch.to_pylist():
            found.setdefault(row["partition"], []).append((row["offset"], meaning_of_row(row)))
    return found


def _row_differences(where: str, rows: list[tuple[int, int]], told: Acknowledged) -> list[str]:
    found, expected = dict(rows), told.rows
    differences = []
    if len(rows) != len(found):
        differences.append(f"{where}: {len(rows) - len(found)} rows are there more than once")
    if missing := sorted(expected.keys() - found.keys()):
        differences.append(f"{where}: {len(missing)} rows are missing, first offsets {missing[:5]}")
    if foreign := sorted(found.keys() - expected.keys()):
        differences.append(f"{where}: {len(foreign)} rows should not be there, first offsets {foreign[:5]}")
    if other := sorted(at for at in found.keys() & expected.keys() if found[at] != expected[at]):
        differences.append(f"{where}: {len(other)} rows mean something else, first offsets {other[:5]}")
    return differences


def _letter_differences(bootstrap: str, dead_letter: str, poison: set[tuple[str, int, int]], feed: Feed) -> list[str]:
    """Differences between dead letters and poison, as sets: letters are sent at least once."""
    sent: dict[tuple[str, int, int], int] = {}
    for message in read_partition(bootstrap, dead_letter, 0) if poison else ():
        headers = {name: value.decode() for name, value in message.headers() or ()}
        place = (headers["ottla.topic"], int(headers["ottla.partition"]), int(headers["ottla.offset"]))
        sent[place] = digest(message.key() + (message.value() or b""))
    differences = []
    if missing := sorted(poison - sent.keys()):
        differences.append(f"{dead_letter}: {len(missing)} poisoned records have no letter, first {missing[:3]}")
    if foreign := sorted(sent.keys() - poison):
        differences.append(f"{dead_letter}: {len(foreign)} letters are about good records, first {foreign[:3]}")
    produced = {
        (name, partition, offset): content
        for (name, partition), told in feed.acknowledged.items()
        for offset, content in zip(told.offsets, told.digests, strict=True)
        if offset in told.poison
    }
    if other := sorted(at for at in sent.keys() & poison if sent[at] != produced[at]):
        differences.append(f"{dead_letter}: {len(other)} letters have other bytes, first {other[:3]}")
    return differences


def _where_differences(place: Place, kind: str, topics: Sequence[Topic], feed: Feed) -> list[str]:
    """Check `ottla lake where`. Plain files do not show that the last record became a dead letter."""
    asked = subprocess.run(
        [sys.executable, "-m", "ottla", "lake", "where", "--to", place.url(kind), "--format", "json"],
        env={**os.environ, **place.straight()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if asked.returncode:
        return [f"ottla lake where ended with {asked.returncode}: {asked.stderr.strip()}"]
    said = {(each["topic"], each["partition"]): each for each in json.loads(asked.stdout)}
    differences = []
    for topic in topics:
        for partition in range(topic.partitions):
            told, told_of = feed.acknowledged[topic.name, partition], said.get((topic.name, partition))
            if not told.offsets:
                continue
            end, last_row = max(told.offsets) + 1, max(told.rows, default=-1) + 1
            in_table = last_row if place.format == "parquet" else end
            expected = {"in_table": in_table, "in_state": end, "rows": len(told.rows)}
            if told_of is None or {name: told_of[name] for name in expected} != expected:
                differences.append(f"{topic.name}-{partition}: ottla lake where says {told_of}, expected {expected}")
    return differences
