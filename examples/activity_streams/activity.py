"""Page views, searches and clicks of several sites: sessions, counts a minute, and the top pages of each hour.

ottla streams run examples/activity_streams/activity.py --application-id activity
"""

from __future__ import annotations

from typing import Any

from ottla.streams import INT64, JSON, TEXT, SessionWindows, StreamsBuilder, TimeWindows, Topology

KINDS = ("page-views", "searches", "clicks")
MINUTE, HOUR = 60_000, 60 * 60_000
GRACE = 7 * 24 * HOUR
"""Events count that come so late: a log that is replayed at once comes out of order by days."""
TOP = 10


def add(_visitor: str, event: dict[str, Any], session: dict[str, Any]) -> dict[str, Any]:
    """A session with one event more; `sites` tells where the visitor has been."""
    counts = {**session["counts"], event["kind"]: session["counts"].get(event["kind"], 0) + 1}
    return {"counts": counts, "sites": sorted({*session["sites"], event["site"]})}


def merge(_visitor: str, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two sessions that an event between them has joined."""
    kinds = one["counts"].keys() | other["counts"].keys()
    counts = {kind: one["counts"].get(kind, 0) + other["counts"].get(kind, 0) for kind in sorted(kinds)}
    return {"counts": counts, "sites": sorted({*one["sites"], *other["sites"]})}


def higher(_site: str, page: tuple[str, int], top: dict[str, int]) -> dict[str, int]:
    """The top pages after a page's newest count. Counts only grow, so a page that belongs there comes back."""
    found = {**top, page[0]: page[1]}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0]))[:TOP])


def topology() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=JSON)
    views, searches, clicks = (builder.stream(kind) for kind in KINDS)

    everything = views.merge(searches).merge(clicks)
    sessions = everything.group_by_key().windowed_by(SessionWindows(30 * MINUTE, grace_ms=GRACE))
    sessions.aggregate(lambda: {"counts": {}, "sites": []}, add, merge, store="sessions").to_stream().map(
        lambda session, found: (f"{session.key}@{session.start}-{session.end}", found)
    ).to("sessions")

    by_page = views.group_by(lambda _, view: f"{view['site']}{view['page']}", name="by-page")
    by_page.windowed_by(TimeWindows(MINUTE, grace_ms=GRACE)).count(store="minutes").to_stream().map(
        lambda page, count: (f"{page.key}@{page.start}", count)
    ).to("page-minutes", value=INT64)

    hourly = by_page.windowed_by(TimeWindows(HOUR, grace_ms=GRACE)).count(store="hours").to_stream()
    by_site = hourly.map(lambda page, count: (f"{page.key.split('/')[0]}@{page.start}", [page.key, count]))
    by_site.group_by_key(name="by-site").aggregate(dict, higher, store="top").to_stream().to("top-pages")
    return builder.build()
