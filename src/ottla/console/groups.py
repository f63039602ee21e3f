"""Groups of consumers: the list, and one with its members and its lag."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.consume.group_protocol import decode_assignment
from ottla.client.errors import ProtocolViolation, UnsupportedVersion
from ottla.client.model import LATEST, OffsetAtTime
from ottla.console import lists
from ottla.console.desk import Desk
from ottla.console.lag_times import age_shown, first_unread_ms
from ottla.console.lists import listing
from ottla.console.sparkline import sparkline
from ottla.console.view import PageQuery, View
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.consumer_group_describe import Assignment

PARAMETERS = lists.PARAMETERS
COLUMNS = ("group", "state", "lag")


async def groups(desk: Desk, query: PageQuery) -> View:
    """A page of the groups, with the lag of the last sample."""
    desk.watch.wanted()
    lags, courses = desk.watch.samples.lags, desk.watch.samples.courses
    rows = [
        {
            "group": each.group_id,
            "state": each.group_state or "?",
            "type": each.group_type or "classic",
            "protocol": each.protocol_type,
            "lag": lags.get(each.group_id),
        }
        for each in await desk.admin.list_groups()
    ]
    found = listing(rows, query, COLUMNS)
    drawn = [
        {**row, "spark": sparkline(courses.of(f"group:{row['group']}", 60), f"lag of {row['group']}")}
        for row in found.rows
    ]
    return View("groups.html", "Groups", {"groups": drawn, "list": found, "columns": COLUMNS})


async def group(desk: Desk, query: PageQuery) -> View:
    """One group: its members, and where it stands in each partition."""
    desk.watch.wanted()
    name = query.need("name")
    found = await described(desk, name)
    committed = await desk.admin.committed_offsets(name)
    owners = {place: member["id"] for member in found["members"] for place in member["places"]}
    places = sorted({*committed, *owners})
    views = await desk.topics()
    led = [
        place
        for place in places
        if place.topic in views
        and place.partition in views[place.topic].partitions
        and views[place.topic].partitions[place.partition].leader >= 0
    ]
    ends = await desk.admin.list_offsets(dict.fromkeys(led, LATEST))
    rows = await _rows(desk, places, {at: one.offset for at, one in committed.items()}, ends)
    for row in rows:
        row["member"] = owners.get(TopicPartition(row["topic"], row["partition"]), "")
    behind = [row for row in rows if row["lag"]]
    age_ms = max((row["lag_ms"] for row in behind if row["lag_ms"] is not None), default=None if behind else 0)
    members = [{**each, "places": [str(place) for place in each["places"]]} for each in found["members"]]
    values = {
        **found,
        "name": name,
        "members": members,
        "offsets": rows,
        "lag": sum(row["lag"] or 0 for row in rows),
        "lag_ms": age_ms,
        "age": age_shown(age_ms),
        "age_is_least": age_ms is not None and any(row["lag_ms"] is None for row in behind),
        "topics": sorted({place.topic for place in committed}),
        "spark": sparkline(desk.watch.samples.courses.of(f"group:{name}"), f"lag of {name}"),
        "idle": found["state"] in ("Empty", "Dead"),
    }
    return View("group.html", name, values)


async def _rows(
    desk: Desk,
    places: list[TopicPartition],
    committed: dict[TopicPartition, int],
    ends: Mapping[TopicPartition, OffsetAtTime | Exception],
) -> list[dict[str, Any]]:
    """Each partition with its lag in records and in time. A timestamp in the future counts as now."""
    known = {place: end.offset for place, end in ends.items() if isinstance(end, OffsetAtTime)}
    lags = {place: max(0, known[place] - at) for place, at in committed.items() if place in known and at >= 0}
    times, now_ms = await first_unread_ms(desk, committed, lags), int(time.time() * 1000)
    rows = []
    for place in places:
        age_ms = max(0, now_ms - times[place]) if place in times else 0 if lags.get(place) == 0 else None
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": committed.get(place),
                "end": known.get(place),
                "lag": lags.get(place),
                "lag_ms": age_ms,
                "age": age_shown(age_ms),
            }
        )
    return rows


async def described(desk: Desk, name: str) -> dict[str, Any]:
    """State and members of a group of either protocol; raises GROUP_ID_NOT_FOUND."""
    newer = await _consumer_group(desk, name)
    if newer is not None:
        return newer
    found = (await desk.admin.describe_groups([name]))[name]
    if isinstance(found, ApiError):
        raise found
    members = [
        _member(each.member_id, each.group_instance_id, each.client_id, each.client_host, _assigned(each))
        for each in found.members
    ]
    return {"state": found.group_state, "type": "classic", "assignor": found.protocol_data, "members": members}


async def _consumer_group(desk: Desk, name: str) -> dict[str, Any] | None:
    try:
        found = (await desk.admin.describe_consumer_groups([name]))[name]
    except UnsupportedVersion:
        return None
    if isinstance(found, ApiError):
        if found.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        raise found
    members = [
        _member(each.member_id, each.instance_id, each.client_id, each.client_host, _places(each.assignment))
        for each in found.members
    ]
    return {"state": found.group_state, "type": "consumer", "assignor": found.assignor_name, "members": members}


def _member(
    member_id: str, instance: str | None, client: str, host: str, places: Iterable[TopicPartition]
) -> dict[str, Any]:
    return {
        "id": member_id,
        "instance": instance or "",
        "client": client,
        "host": host.lstrip("/"),
        "places": sorted(places),
    }


def _assigned(member: Any) -> tuple[TopicPartition, ...]:
    """The partitions of a classic member; none where another kind of client wrote the bytes."""
    try:
        return decode_assignment(bytes(member.member_assignment))
    except ProtocolViolation:
        return ()


def _places(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )
