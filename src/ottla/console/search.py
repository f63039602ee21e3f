"""Searches that go on while somebody watches: events with rows and progress. Each is kept until others push it out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.aio.consumer import Consumer
from ottla.client.model import EARLIEST, LATEST, IsolationLevel
from ottla.console.conditions import Matcher, Wanted
from ottla.console.desk import Desk
from ottla.console.scan import OffsetSpan, Progress, TopicScan
from ottla.console.values import ShownRecord
from ottla.console.view import PageQuery, wrong
from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_ms, moment_text
from ottla.records.reader import Record
from ottla.web.events import event

HITS_A_TURN = 200
"""A search waits for "go on" after so many hits."""
AT_ONCE = 4
"""Searches that read at the same time."""
_TELL_S = 0.5
_MOST_A_SECOND = 200
PLACES = ("newest", "oldest", "offset", "time")


@dataclass(slots=True)
class Search:
    """One search of one topic."""

    scan: TopicScan
    only_partition: int | None
    """The partition that can have the key, where the others are left out."""
    runs: bool = False


class SearchTurns:
    """Lets some searches read at a time; the others wait, and say so."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(AT_ONCE)


async def spans_of(desk: Desk, topic: str, place: str, query: PageQuery, partitions: Sequence[int]) -> list[OffsetSpan]:
    """The offsets of each partition to look at: from a place on, or for the newest all that there are."""
    places = [TopicPartition(topic, index) for index in partitions]
    cluster = desk.admin.cluster
    first, last = await asyncio.gather(cluster.list_offsets(places, EARLIEST), cluster.list_offsets(places, LATEST))
    starts = {each: first[each].offset for each in places}
    ends = {each: last[each].offset for each in places}
    if place == "offset":
        offset = query.count("offset", 0)
        starts = {each: max(at, offset) for each, at in starts.items()}
    elif place == "time":
        text = query.text("since", "-1h")
        try:
            since_ms = moment_ms(text, int(time.time() * 1000))
        except ValueError as fault:
            raise wrong(f"since: {fault}") from None
        found = await cluster.list_offsets(places, since_ms)
        starts = {each: found[each].offset if found[each].offset >= 0 else ends[each] for each in places}
    return [OffsetSpan(each.partition, starts[each], ends[each]) for each in places if starts[each] < ends[each]]


def search_of(
    desk: Desk, topic: str, wish: Wanted, spans: list[OffsetSpan], *, newest: bool, committed: bool
) -> TopicScan:
    """A search over these offsets."""
    matcher = Matcher(wish, desk.viewer(topic), int(time.time() * 1000))
    return TopicScan(desk.admin.cluster, topic, Progress(spans, newest), matcher, committed_only=committed)


async def events_of(desk: Desk, search: Search, turns: SearchTurns) -> AsyncGenerator[bytes, None]:
    """Rows as they are found, progress twice a second, and at last `pause` or `end`."""
    if search.runs:
        yield event({"message": "this search is being watched already"}, name="refused")
        return
    search.runs = True
    try:
        if turns.places.locked():
            yield event({"message": f"{AT_ONCE} searches run; this one waits for its turn"}, name="waits")
        async with turns.places:
            async for told in _told(desk, search):
                yield told
    finally:
        search.runs = False


async def _told(desk: Desk, search: Search) -> AsyncGenerator[bytes, None]:
    progress = search.scan.progress
    until, told_s = progress.hits + HITS_A_TURN, 0.0
    rows = 0
    async for hits in search.scan.steps():
        desk.used_s = time.monotonic()
        if hits:
            rows += len(hits)
            yield event({"records": [as_row(each) for each in hits]}, name="rows")
        if time.monotonic() - told_s > _TELL_S:
            told_s = time.monotonic()
            yield event(progress_shown(progress), name="progress")
        if progress.hits >= until:
            break
    yield event(progress_shown(progress), name="end" if progress.is_done else "pause")


def progress_shown(progress: Progress) -> dict[str, Any]:
    """The state of a search, with a sentence for people."""
    reached = f", at {moment_text(progress.reached_ms)}" if progress.reached_ms >= 0 else ""
    return {
        "looked_at": progress.looked_at,
        "total": progress.total,
        "hits": progress.hits,
        "faults": progress.faults,
        "sentence": f"{progress.looked_at:,} of {progress.total:,} offsets, {progress.hits:,} found{reached}",
    }


def as_row(record: ShownRecord) -> dict[str, Any]:
    """A record as scripts put it into the table: texts only."""
    return {
        "partition": record.partition,
        "offset": str(record.offset),
        "time": moment_text(record.timestamp) if record.timestamp >= 0 else "",
        "key": {"kind": record.key.kind, "text": record.key.short, "note": record.key.note},
        "value": {
            "kind": record.value.kind,
            "text": record.value.short,
            "pretty": record.value.pretty,
            "note": record.value.note,
            "size": record.value.size,
        },
        "headers": [[name, text] for name, text in record.headers],
    }


async def tail(desk: Desk, topic: str, wish: Wanted, partitions: Sequence[int]) -> AsyncGenerator[bytes, None]:
    """Records from now on, at most some a second; the others are counted."""
    viewer = desk.viewer(topic)
    matcher = Matcher(wish, viewer, int(time.time() * 1000))
    places = [TopicPartition(topic, index) for index in partitions]
    consumer = Consumer(desk.setting.bootstrap, settings=desk.client, isolation_level=IsolationLevel.READ_COMMITTED)
    async with consumer:
        ends = await consumer.cluster.list_offsets(places, LATEST)
        consumer.assign(places)
        for place, end in ends.items():
            consumer.seek(place, end.offset)
        yield event({"sentence": "waiting for records"}, name="progress")
        second, shown, seen, left_out = 0, 0, 0, 0
        while True:
            records = await consumer.poll(1_000, 1_000)
            desk.used_s = time.monotonic()
            if int(time.monotonic()) != second:
                second, shown = int(time.monotonic()), 0
            hits = []
            for each in records:
                one = Record(each.offset, each.timestamp, each.key, each.value, each.headers)
                hits += matcher.hits(each.partition, [one])
            seen += len(hits)
            room = _MOST_A_SECOND - shown
            left_out += max(0, len(hits) - room)
            shown += min(len(hits), room)
            if hits[:room]:
                yield event({"records": [as_row(each) for each in hits[:room]]}, name="rows")
            if records:
                more = f", {left_out:,} of them not shown: at most {_MOST_A_SECOND} a second are" if left_out else ""
                yield event({"sentence": f"{seen:,} records came{more}"}, name="progress")
