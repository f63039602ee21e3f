"""Alerts: a group that falls behind, a topic that fills, told once when it begins and once when it is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import Request, urlopen

from ottla.cli.connect import admin as admin_of
from ottla.client import Admin, TopicPartition
from ottla.client.model import EARLIEST, LATEST
from ottla.jobs.running_async import AsyncJobRun
from ottla.pipeline.parts import PipelinePart

_TIMEOUT_S = 10


def group_lag(admin: Admin, group: str) -> int:
    """Records behind the ends of the partitions that the group has committed offsets of."""
    committed = {at: one.offset for at, one in admin.committed_offsets(group).items() if one.offset >= 0}
    ends = _offsets(admin, sorted(committed), LATEST) if committed else {}
    return sum(max(0, ends[at] - offset) for at, offset in committed.items())


def topic_records(admin: Admin, topic: str) -> int:
    """Offsets between the beginning and the end of a topic, 0 where there is no such topic."""
    view = admin.list_topics().get(topic)
    if view is None:
        return 0
    partitions = [TopicPartition(topic, index) for index in sorted(view.partitions)]
    first, last = _offsets(admin, partitions, EARLIEST), _offsets(admin, partitions, LATEST)
    return sum(last[at] - first[at] for at in partitions)


def _offsets(admin: Admin, partitions: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
    found = {}
    for partition, told in admin.list_offsets(dict.fromkeys(partitions, at)).items():
        if isinstance(told, Exception):
            raise told
        found[partition] = told.offset
    return found


def sentence(part: PipelinePart, number: int) -> str | None:
    """The sentence where the number is over its limit, else None."""
    values = part.values
    if values.get("group"):
        limit = int(values["lag"])
        return f"{values['group']} is {number:,} records behind, more than {limit:,}" if number > limit else None
    limit = int(values["records"])
    return f"{values['topic']} has {number:,} records; {limit:,} are too many" if number >= limit else None


async def watch(
    part: PipelinePart, bootstrap: str, client: Mapping[str, str], say: Callable[[str], None], run: AsyncJobRun
) -> None:
    """Look again and again, as the work of a job."""
    before: str | None = None
    began = False
    while not run.ending.is_set():
        number = await asyncio.to_thread(_looked, part, bootstrap, client)
        if not began:
            run.began()
            began = True
        found = sentence(part, number)
        if (found is None) != (before is None):
            text = found or f"over: {before}"
            say(text)
            if part.values.get("webhook"):
                await asyncio.to_thread(_post, str(part.values["webhook"]), part.name, text, found is not None)
        before = found
        try:
            await asyncio.wait_for(run.ending.wait(), int(part.values.get("every") or 10_000) / 1000)
        except TimeoutError:
            continue


def _looked(part: PipelinePart, bootstrap: str, client: Mapping[str, str]) -> int:
    with admin_of(bootstrap, client) as admin:
        if part.values.get("group"):
            return group_lag(admin, str(part.values["group"]))
        return topic_records(admin, str(part.values["topic"]))


def _post(url: str, name: str, text: str, raised: bool) -> None:
    body: dict[str, Any] = {"alert": name, "text": text, "raised": raised}
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=_TIMEOUT_S):
        pass
