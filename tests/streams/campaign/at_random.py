"""Holds topologies made at random to Kafka's driver: the engine in memory, on disk, and through restarts."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.streams.oracle import Oracle, Refused, Row
from tests.streams.programs import Program, built, drawn

from ottla.streams import TopologyError
from ottla.streams.engine.task import Task
from ottla.streams.stores.disk import StoreDatabase
from ottla.streams.values import Input, Place

OURS = "ours: "
Ask = Callable[[Program, Sequence[Row]], Any]
Sequences = dict[tuple[str, str | None], list[tuple[str | None, int]]]


def campaign(topologies: int, minutes: float, seed: int, folder: Path) -> int:
    """Run so many topologies, or until the time is over; the number of those that differ.

    Those that ours or Kafka refuses are listed by the reason.
    """
    oracle, deadline = Oracle(folder), time.monotonic() + 60 * minutes
    ran, different, refused = 0, 0, Counter[str]()
    try:
        for number in range(topologies):
            if time.monotonic() > deadline:
                break
            program, rows = drawn(random.Random(f"{seed} {number}"))
            try:
                faults = differences(program, rows, number, oracle.ask)
            except Refused as why:
                refused[re.sub(r"[\d-]{4,}", "-N", str(why).splitlines()[0])[:200]] += 1
                continue
            ran += 1
            if faults:
                different += 1
                rows = fewest(program, rows, number, oracle.ask)
                print(f"topology {number} is DIFFERENT\n  {json.dumps(program)}\n  {json.dumps(rows)}", flush=True)
                for fault in differences(program, rows, number, oracle.ask):
                    print(f"  {fault}", flush=True)
    finally:
        oracle.close()
    for why, count in refused.most_common():
        print(f"{count} refused, {why}")
    print(f"{ran} topologies of seed {seed} ran: {different} different", flush=True)
    return different


def differences(program: Program, rows: Sequence[Row], number: int, ask: Ask) -> list[str]:
    """Sentences on what the ways to run a program do not have in common."""
    kafkas = ask(program, rows)
    try:
        topology = built(program)
        ways = {
            "the engine in memory": engine(program, rows),
            "the engine on disk": engine(program, rows, disk=True),
            "the engine through restarts": engine(program, rows, cuts=random.Random(number)),
        }
    except TopologyError as refused:
        raise Refused(f"{OURS}{refused}") from refused
    except Exception as error:
        return [f"the engine fails: {type(error).__name__}: {error}"]
    found = []
    if neighbours_sorted(topology.describe()) != neighbours_sorted(kafkas["describe"]):
        found = ["the texts of the topologies differ"]
    for way, mine in ways.items():
        theirs = by_topic_and_key(kafkas["outputs"])
        found += [
            f"{way}, {place}: {mine.get(place)}; Kafka {theirs.get(place)}"
            for place in sorted(mine.keys() | theirs.keys(), key=str)
            if mine.get(place) != theirs.get(place)
        ]
    return found


def neighbours_sorted(described: str) -> list[str]:
    """The lines of a topology's text: Kafka orders a node's neighbours by sizes that still change while it does so."""
    lines = []
    for line in described.splitlines():
        arrow, names = line[:10], line[10:]
        lines.append(arrow + ", ".join(sorted(names.split(", "))) if arrow.strip() in ("-->", "<--") else line)
    return lines


def fewest(program: Program, rows: Sequence[Row], number: int, ask: Ask) -> list[Row]:
    """Fewer rows that still make a difference: those that can be left out one by one are."""
    left = list(rows)
    for at in reversed(range(len(left))):
        fewer = left[:at] + left[at + 1 :]
        if differences(program, fewer, number, ask):
            left = fewer
    return left


def engine(
    program: Program, rows: Sequence[Row], *, disk: bool = False, cuts: random.Random | None = None
) -> Sequences:
    """The records that the engine writes; with `cuts` a new task takes over the state at some records."""

    def task() -> Task:
        return Task(built(program), rows=StoreDatabase(recent_rows=2) if disk else None)

    running, changes, found = task(), list[Any](), list[list[Any]]()
    for offset, (topic, key, value, timestamp) in enumerate(rows):
        running.feed(Input(Place(topic, 0, offset), _bytes(key), _bytes(value), timestamp))
        results = running.take(offset)
        changes.append(results.changes)
        found += [
            [_text(one.key), _text(one.value), one.timestamp, one.topic]
            for one in results.outputs
            if not one.repartition
        ]
        if cuts is not None and cuts.random() < 0.3:
            running = task()
            for each in changes:
                running.restore(each)
    return by_topic_and_key(found)


def by_topic_and_key(records: list[list[Any]]) -> Sequences:
    """Values and times of each key in each topic: between keys and topics no order is said."""
    found: Sequences = {}
    for key, value, timestamp, topic in records:
        found.setdefault((topic, key), []).append((value, timestamp))
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
