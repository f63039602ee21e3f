"""Changes of groups: reset offsets, forget a topic, delete."""

from __future__ import annotations

import json
import time

from ottla.client.errors import refused
from ottla.client.model import EARLIEST, LATEST, CommittedOffset
from ottla.console.change import AskedChange, command, raise_faults
from ottla.console.desk import Desk
from ottla.console.groups import described
from ottla.console.messages import partitions_of
from ottla.console.urls import url
from ottla.console.view import PageQuery, wrong
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_ms

_IDLE = ("Empty", "Dead")


async def reset(desk: Desk, form: PageQuery) -> AskedChange:
    """New offsets for a group without members. The offsets that were shown are those that are committed."""
    name, topic, to = form.need("group"), form.text("topic"), form.text("to", "latest")
    await _must_be_idle(desk, name)
    committed = await desk.admin.committed_offsets(name)
    places = sorted(place for place in committed if not topic or place.topic == topic)
    if topic and not places:
        places = [TopicPartition(topic, index) for index in await partitions_of(desk, topic)]
    if not places:
        raise wrong(f"group {name!r} has no offsets to reset: name a topic to begin it")
    settled = form.text("offsets")
    offsets = _settled(settled, places) if settled else await offsets_at(desk, places, to)

    async def carry_out() -> str:
        await _must_be_idle(desk, name)
        found = {place: CommittedOffset(offset) for place, offset in offsets.items()}
        raise_faults(await desk.admin.commit_offsets(name, found))
        return f"The group {name} goes on at these offsets: {len(offsets)} partitions were set."

    rows = [
        (place.topic, place.partition, committed[place].offset if place in committed else "", offset)
        for place, offset in offsets.items()
    ]
    words = ["group", "reset", name, "--to", to, *(["--topic", topic] if topic else []), "--execute"]
    fixed = json.dumps([[place.topic, place.partition, offset] for place, offset in offsets.items()])
    return AskedChange(
        f"Reset the group {name}",
        command(desk, *words),
        carry_out,
        url("group", name=name),
        ["The group reads again, or leaves out, what lies between the old and the new offsets."],
        ("topic", "partition", "committed now", "new offset"),
        rows,
        {"offsets": fixed},
        is_loss=True,
    )


async def _must_be_idle(desk: Desk, name: str) -> None:
    try:
        state = (await described(desk, name))["state"]
    except ApiError as fault:
        if fault.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    if state not in _IDLE:
        raise refused(ErrorCode.NON_EMPTY_GROUP, f"group {name!r}", f"it is {state.lower()}: stop its members first")


def _settled(text: str, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The offsets of the look before."""
    try:
        found = {TopicPartition(str(topic), int(index)): int(offset) for topic, index, offset in json.loads(text)}
    except (ValueError, TypeError):
        raise wrong("the offsets are not those that were shown: begin again") from None
    if not found or min(found.values()) < 0 or not set(found) <= set(places):
        raise wrong("the offsets are not those of this group: begin again")
    return found


async def offsets_at(desk: Desk, places: list[TopicPartition], to: str) -> dict[TopicPartition, int]:
    """By `earliest`, `latest`, an offset within the log, or a moment: `-90m`, `yesterday 10:00`."""
    cluster = desk.admin.cluster
    last = {place: at.offset for place, at in (await cluster.list_offsets(places, LATEST)).items()}
    if to == "latest":
        return last
    first = {place: at.offset for place, at in (await cluster.list_offsets(places, EARLIEST)).items()}
    if to == "earliest":
        return first
    if to.isdecimal():
        outside = [place for place in places if not first[place] <= int(to) <= last[place]]
        if outside:
            one = outside[0]
            raise wrong(f"{one} has offsets {first[one]} to {last[one]}: {to} is not among them")
        return dict.fromkeys(places, int(to))
    try:
        since_ms = moment_ms(to, int(time.time() * 1000))
    except ValueError as fault:
        raise wrong(f"to: {fault}; earliest, latest and an offset do as well") from None
    found = await cluster.list_offsets(places, since_ms)
    return {place: at.offset if at.offset >= 0 else last[place] for place, at in found.items()}


async def forget(desk: Desk, form: PageQuery) -> AskedChange:
    """One topic less in a group."""
    name, topic = form.need("group"), form.need("topic")
    places = [place for place in await desk.admin.committed_offsets(name) if place.topic == topic]
    if not places:
        raise wrong(f"group {name!r} has no offsets of {topic}")

    async def carry_out() -> str:
        raise_faults(await desk.admin.delete_offsets(name, places))
        return f"The group {name} has no offsets of {topic} any more."

    tool = f"ottla kafka-consumer-groups --bootstrap-server {desk.setting.bootstrap} --delete-offsets"
    return AskedChange(
        f"Forget {topic} in the group {name}",
        f"{tool} --group {name} --topic {topic}",
        carry_out,
        url("group", name=name),
        [f"The offsets of {len(places)} partitions are lost."],
        is_loss=True,
    )


async def delete(desk: Desk, form: PageQuery) -> AskedChange:
    """A group less, with its offsets."""
    name = form.need("group")
    await _must_be_idle(desk, name)

    async def carry_out() -> str:
        raise_faults(await desk.admin.delete_groups([name]))
        return f"The group {name} was deleted."

    lines = ["Its offsets are lost: members that come back begin as a new group."]
    return AskedChange(
        f"Delete the group {name}",
        command(desk, "group", "delete", name),
        carry_out,
        url("groups"),
        lines,
        is_loss=True,
    )
