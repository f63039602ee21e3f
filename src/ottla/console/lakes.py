"""Lakes that were named: what is loaded of each topic, how far, and the picture of their completeness."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ottla.client.model import EARLIEST, LATEST, OffsetAtTime
from ottla.console.desk import Desk
from ottla.console.view import PageQuery, View
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.stores.base import LakeRefused
from ottla.web.exchange import HttpError, Request, Response

if TYPE_CHECKING:
    from ottla.lake.audit.upkeep import Lake
    from ottla.lake.notes.history import History
    from ottla.lake.notes.plans import Publication
    from ottla.lake.reports.status import Ends

_LAST_ROUNDS = 10


async def lakes(desk: Desk, query: PageQuery) -> View:
    """One of the lakes, and the places of all."""
    given, number = list(desk.setting.lakes), query.count("number", 0)
    values: dict[str, Any] = {"lakes": given, "number": number}
    if not given:
        return View("lakes.html", "Lakes", values)
    if number >= len(given):
        raise HttpError(404, "no such lake was given: start the console with --lake PLACE")
    place = given[number]
    try:
        lake, history = await asyncio.to_thread(_read, place)
    except LakeRefused as fault:
        raise HttpError(409, str(fault)) from None
    except OSError as fault:
        raise HttpError(502, f"{place} cannot be read: {fault}") from None
    ends = await _ends(desk, history)
    return View("lakes.html", place, {**values, **await asyncio.to_thread(_values, lake, history, ends)})


async def style(request: Request) -> Response:
    """The style of the pictures of lakes."""
    from ottla.lake.audit.picture import STYLE

    request.query(())
    return Response(STYLE.encode(), "text/css; charset=utf-8")


def _read(place: str) -> tuple[Lake, History]:
    from ottla.lake.audit.upkeep import Lake

    lake = Lake(place)
    return lake, lake.history()


async def _ends(desk: Desk, history: History) -> Ends:
    """The begin and end of the lake's topics that are of this cluster; a topic is left out where one of its ends is."""
    from ottla.lake.reports.status import Ends

    asked_us, views = time.time_ns() // 1000, await desk.topics()
    ids = history.committed.topic_ids
    here = [view for view in views.values() if ids.get(view.name) == view.topic_id]
    led = [view for view in here if all(part.leader >= 0 for part in view.partitions.values())]
    places = [TopicPartition(view.name, at) for view in led for at in view.partitions]
    first, last = await asyncio.gather(
        *(desk.admin.list_offsets(dict.fromkeys(places, at)) for at in (EARLIEST, LATEST))
    )
    earliest, latest = _offsets(first), _offsets(last)
    gone = {place.topic for place in places if place not in earliest or place not in latest}
    topic_ids = {view.name: TopicId(view.topic_id) for view in led if view.name not in gone}
    return Ends(asked_us, _without(gone, earliest), _without(gone, latest), topic_ids)


def _without(gone: set[str], offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {place: offset for place, offset in offsets.items() if place.topic not in gone}


def _offsets(found: Mapping[TopicPartition, object]) -> dict[TopicPartition, int]:
    return {at: one.offset for at, one in found.items() if isinstance(one, OffsetAtTime)}


def _values(lake: Lake, history: History, ends: Ends) -> dict[str, Any]:
    """Topics whose ends this cluster does not tell are shown by the lake alone."""
    from ottla.lake.audit.grid import LakeFacts, grids
    from ottla.lake.audit.picture import sections
    from ottla.lake.reports.periods import Periods
    from ottla.lake.reports.status import statuses, topic_complete_through

    layout, committed = lake.shape.layout, history.committed
    asked = {place.topic for place in ends.latest}
    found, through = [], {}
    for topic in sorted(committed.topic_ids):
        known = ends if topic in asked else None
        found += statuses(history, [topic], known, ends.asked_us)
        through[topic] = topic_complete_through(topic, committed, known, ends.asked_us)
    periods = Periods(layout.time_unit or "day", layout.time_zone)
    lost = Counter(history.forgotten.lost if history.forgotten is not None else {})
    for each in history.rounds:
        lost.update(each.plan.lost)
    return {
        "topics": [{**asdict(each), "lost": _of(each.topic, lost), "here": each.topic in asked} for each in found],
        "rounds": [_round(each) for each in reversed(history.rounds[-_LAST_ROUNDS:])],
        "committed": committed.number,
        "picture": sections(grids(LakeFacts(history, tuple(found), through), periods)),
    }


def _of(topic: str, counts: Mapping[TopicPartition, int]) -> int:
    return sum(count for place, count in counts.items() if place.topic == topic)


def _round(each: Publication) -> dict[str, Any]:
    counts = ("records", "rows", "dead", "filtered", "aborted")
    return {
        "number": each.plan.number,
        "topics": sorted({count.span.topic for count in each.counts}),
        **{name: sum(getattr(count, name) for count in each.counts) for name in counts},
    }
