"""The list of topics, and one topic: partitions, configurations, groups that read it, producers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ottla.client.admin.admin import ConfigSource, Resource, ResourceType
from ottla.client.errors import UnsupportedVersion
from ottla.client.model import EARLIEST, LATEST, OffsetAtTime, TopicView
from ottla.console import lists
from ottla.console.desk import Desk
from ottla.console.lists import listing
from ottla.console.sparkline import shown, size_shown, sparkline
from ottla.console.view import PageQuery, View
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_text

PARAMETERS = (*lists.PARAMETERS, "internal")
COLUMNS = ("name", "partitions", "replicas", "rate", "under_replicated")
_MOST_GROUPS = 200
_AT_ONCE = 16


async def topics(desk: Desk, query: PageQuery) -> View:
    """A page of the topics; offsets are asked for those on the page alone."""
    desk.watch.wanted()
    rates = desk.watch.samples.topic_rates
    rows = [
        {
            "name": name,
            "partitions": len(view.partitions),
            "replicas": max((len(each.replicas) for each in view.partitions.values()), default=0),
            "rate": rates.get(name),
            "under_replicated": sum(len(each.isr) < len(each.replicas) for each in view.partitions.values()),
            "internal": view.is_internal,
        }
        for name, view in (await desk.topics()).items()
        if query.flag("internal") or not view.is_internal
    ]
    found = listing(rows, query, COLUMNS)
    counts = await _counts(desk, [row["name"] for row in found.rows])
    shown_rows = [
        {
            **row,
            "records": counts.get(row["name"]),
            "shown_rate": shown(row["rate"]),
            "spark": sparkline(desk.watch.samples.courses.of(f"topic:{row['name']}", 60), "records a second"),
        }
        for row in found.rows
    ]
    values = {"topics": shown_rows, "list": found, "internal": query.flag("internal"), "columns": COLUMNS}
    return View("topics.html", "Topics", values)


async def _counts(desk: Desk, names: list[str]) -> dict[str, int]:
    """The offsets between the first and the end of topics; a topic that cannot be asked is left out."""
    known = await desk.topics()
    places = [
        TopicPartition(name, index)
        for name in names
        if all(part.leader >= 0 for part in known[name].partitions.values())
        for index in known[name].partitions
    ]
    first, last = await asyncio.gather(
        desk.admin.list_offsets(dict.fromkeys(places, EARLIEST)), desk.admin.list_offsets(dict.fromkeys(places, LATEST))
    )
    counts: dict[str, int] = {}
    broken: set[str] = set()
    for place in places:
        begin, end = first[place], last[place]
        if isinstance(begin, OffsetAtTime) and isinstance(end, OffsetAtTime):
            counts[place.topic] = counts.get(place.topic, 0) + end.offset - begin.offset
        else:
            broken.add(place.topic)
    return {name: count for name, count in counts.items() if name not in broken}


async def topic(desk: Desk, query: PageQuery) -> View:
    """One topic."""
    desk.watch.wanted()
    name = query.need("name")
    view = await desk.topic(name)
    partitions, configs, groups, producers = await asyncio.gather(
        _partitions(desk, view), _configs(desk, name), _groups(desk, view), _producers(desk, view)
    )
    values = {
        "name": name,
        "internal": view.is_internal,
        "partitions": partitions,
        "records": sum(row["end"] - row["first"] for row in partitions if row["end"] is not None),
        "configs": configs,
        "groups": groups,
        "producers": producers,
        "spark": sparkline(desk.watch.samples.courses.of(f"topic:{name}"), "records a second"),
        "rate": shown(desk.watch.samples.topic_rates.get(name)),
        "masks": [f"{each.part}.{'.'.join(each.path)}".rstrip(".") for each in desk.setting.masks.of(name)],
    }
    return View("topic.html", name, values)


async def _partitions(desk: Desk, view: TopicView) -> list[dict[str, Any]]:
    places = [TopicPartition(view.name, index) for index in sorted(view.partitions)]
    led = [place for place in places if view.partitions[place.partition].leader >= 0]
    first, last, logs = await asyncio.gather(
        desk.admin.list_offsets(dict.fromkeys(led, EARLIEST)),
        desk.admin.list_offsets(dict.fromkeys(led, LATEST)),
        desk.admin.describe_log_dirs(None, places),
    )
    sizes: dict[tuple[int, int], int] = {}
    for broker, directories in logs.items():
        for one in [] if isinstance(directories, Exception) else directories:
            for found in one.topics:
                for part in found.partitions:
                    sizes[broker, part.partition_index] = part.partition_size
    rows = []
    for place in places:
        part, begin, end = view.partitions[place.partition], first.get(place), last.get(place)
        why = "no leader" if part.leader < 0 else str(begin if isinstance(begin, Exception) else end)
        known = isinstance(begin, OffsetAtTime) and isinstance(end, OffsetAtTime)
        rows.append(
            {
                "partition": place.partition,
                "leader": part.leader,
                "replicas": list(part.replicas),
                "in_sync": list(part.isr),
                "lacking": sorted(set(part.replicas) - set(part.isr)),
                "first": begin.offset if isinstance(begin, OffsetAtTime) and known else None,
                "end": end.offset if isinstance(end, OffsetAtTime) and known else None,
                "fault": "" if known else why,
                "size": size_shown(sizes.get((part.leader, place.partition))),
            }
        )
    return rows


async def _configs(desk: Desk, name: str) -> list[dict[str, Any]]:
    resource = Resource(ResourceType.TOPIC, name)
    found = (await desk.admin.describe_configs([resource], documentation=True))[resource]
    if isinstance(found, Exception):
        return [{"name": "", "value": str(found), "source": "", "own": False, "about": "", "read_only": True}]
    return [
        {
            "name": each.name,
            "value": "••••" if each.is_sensitive else each.value,
            "source": source_name(each.config_source),
            "own": each.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG,
            "about": each.documentation or "",
            "read_only": each.read_only,
        }
        for each in sorted(found, key=lambda each: (each.config_source != ConfigSource.DYNAMIC_TOPIC_CONFIG, each.name))
    ]


def source_name(source: int) -> str:
    """The words for where a value comes from."""
    try:
        return ConfigSource(source).name.lower().replace("_", " ").removesuffix(" config")
    except ValueError:
        return f"source {source}"


async def _groups(desk: Desk, view: TopicView) -> list[dict[str, Any]]:
    """The groups with offsets in the topic."""
    places = [TopicPartition(view.name, index) for index in view.partitions]
    led = [place for place in places if view.partitions[place.partition].leader >= 0]
    ends = await desk.admin.list_offsets(dict.fromkeys(led, LATEST))
    known: Mapping[TopicPartition, int] = {
        place: end.offset for place, end in ends.items() if isinstance(end, OffsetAtTime)
    }
    names = sorted(group.group_id for group in await desk.admin.list_groups())
    rows: list[dict[str, Any]] = []
    for at in range(0, min(len(names), _MOST_GROUPS), _AT_ONCE):
        some = names[at : at + _AT_ONCE]
        found = await asyncio.gather(
            *(desk.admin.committed_offsets(group, places) for group in some), return_exceptions=True
        )
        for group, committed in zip(some, found, strict=True):
            if isinstance(committed, ApiError):
                continue  # a group that was deleted meanwhile, or that this user may not see
            if isinstance(committed, BaseException):
                raise committed
            if committed:
                lag = sum(max(0, known[place] - each.offset) for place, each in committed.items() if place in known)
                rows.append({"group": group, "partitions": len(committed), "lag": lag})
    if len(names) > _MOST_GROUPS:
        rows.append({"group": "", "partitions": 0, "lag": len(names) - _MOST_GROUPS})
    return rows


async def _producers(desk: Desk, view: TopicView) -> list[dict[str, Any]]:
    """The idempotent producers that the partitions know."""
    places = [TopicPartition(view.name, index) for index, part in view.partitions.items() if part.leader >= 0]
    try:
        found = await desk.admin.describe_producers(places)
    except (ApiError, UnsupportedVersion):
        return []
    rows = [
        {
            "partition": place.partition,
            "producer": each.producer_id,
            "epoch": each.producer_epoch,
            "last": moment_text(each.last_timestamp) if each.last_timestamp >= 0 else "",
            "open_since": each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        }
        for place, states in found.items()
        if not isinstance(states, Exception)
        for each in states
    ]
    return sorted(rows, key=lambda row: str(row["last"]), reverse=True)[:50]
