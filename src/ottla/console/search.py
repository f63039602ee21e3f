"""Searches that go on while somebody watches: events with rows and progress. Each is kept until others push it out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.aio.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.model import EARLIEST, LATEST, ConsumedRecord, IsolationLevel
from ottla.client.registry_client import RegistryRefusal, RegistryUnavailable
from ottla.console.conditions import Matcher, Wanted
from ottla.console.desk import Desk
from ottla.console.scan import OffsetSpan, Progress, TopicScan
from ottla.console.values import ShownRecord
from ottla.console.view import PageQuery, wrong
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_ms, moment_text
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record
from ottla.web.events import event

HITS_A_TURN = 200
"""A search waits for "go on" after so many hits."""
AT_ONCE = 4
"""Searches that read at the same time."""
_TELL_S = 0.5
_MOST_A_SECOND = 200
FAULTS = (ApiError, ClientError, CorruptRecords, RegistryUnavailable, RegistryRefusal)
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


async def spans_of(
    desk: Desk, topic: str, place: str, query: PageQuery, partitions: Sequence[int]
) -> tuple[list[OffsetSpan], list[str]]:
    """The offsets of each partition to look at, from a place on or all; and the partitions that cannot be."""
    view = await desk.topic(topic)
    places = [TopicPartition(topic, index) for index in partitions if view.partitions[index].leader >= 0]
    faults = [f"{topic}-{index}: it has no leader" for index in partitions if view.partitions[index].leader < 0]
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
    return [
        OffsetSpan(each.partition, starts[each], ends[each]) for each in places if starts[each] < ends[each]
    ], faults


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
    except FAULTS as fault:
        yield event({"message": str(fault)}, name="refused")
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
    matcher = Matcher(wish, desk.viewer(topic), int(time.time() * 1000))
    places = [TopicPartition(topic, index) for index in partitions]
    pace = _Pace()
    consumer = Consumer(desk.setting.bootstrap, settings=desk.client, isolation_level=IsolationLevel.READ_COMMITTED)
    try:
        async with consumer:
            ends = await consumer.cluster.list_offsets(places, LATEST)
            consumer.assign(places)
            for place, end in ends.items():
                consumer.seek(place, end.offset)
            yield event({"sentence": "waiting for records"}, name="progress")
            while True:
                records = await consumer.poll(1_000, 1_000)
                desk.used_s = time.monotonic()
                hits = await asyncio.to_thread(_hits, matcher, records) if matcher.may_wait else _hits(matcher, records)
                if rows := pace.taken(hits):
                    yield event({"records": [as_row(each) for each in rows]}, name="rows")
                if records:
                    yield event({"sentence": pace.sentence}, name="progress")
    except FAULTS as fault:
        yield event({"message": str(fault)}, name="refused")


def _hits(matcher: Matcher, records: Sequence[ConsumedRecord]) -> list[ShownRecord]:
    found: list[ShownRecord] = []
    for each in records:
        one = Record(each.offset, each.timestamp, each.key, each.value, each.headers)
        found += matcher.hits(each.partition, [one])
    return found


class _Pace:
    """Lets a number of rows through in each second."""

    def __init__(self) -> None:
        self._second = self._shown = self._seen = self._left_out = 0

    def taken(self, hits: list[ShownRecord]) -> list[ShownRecord]:
        if int(time.monotonic()) != self._second:
            self._second, self._shown = int(time.monotonic()), 0
        room = _MOST_A_SECOND - self._shown
        self._seen += len(hits)
        self._left_out += max(0, len(hits) - room)
        self._shown += min(len(hits), room)
        return hits[:room]

    @property
    def sentence(self) -> str:
        more = f", {self._left_out:,} of them not shown: at most {_MOST_A_SECOND} a second are"
        return f"{self._seen:,} records came{more if self._left_out else ''}"
