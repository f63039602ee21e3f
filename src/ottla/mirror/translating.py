"""Groups alone, translated by the map that another process keeps: what the checkpoint connector does."""

from __future__ import annotations

import asyncio
import time

from ottla.client.aio.cluster import Cluster
from ottla.jobs.running_async import AsyncJobRun
from ottla.kernel.ids import TopicPartition
from ottla.mirror.groups import Groups
from ottla.mirror.lane import Lane
from ottla.mirror.notes import MirrorNotes
from ottla.mirror.options import FlowSettings
from ottla.mirror.topics import MirroredTopics


class Translating:
    """The work of a checkpoint connector."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings

    async def run(self, run: AsyncJobRun) -> None:
        """Translate again and again until `run.ending` is set."""
        settings = self._settings
        async with (
            Cluster(settings.source.bootstrap, settings=settings.source.client) as source,
            Cluster(settings.target.bootstrap, settings=settings.target.client) as target,
        ):
            notes = MirrorNotes(target, settings.policy.map_topic(settings.source.alias))
            await notes.open()
            topics = MirroredTopics(settings, source, target, notes)
            await topics.meet()
            await topics.ensure_checkpoints()
            lanes: dict[TopicPartition, Lane] = {}
            groups = Groups(settings, source, target, lanes)
            due = [(max(seconds, 1.0), do) for enabled, seconds, do in groups.rounds() if enabled and seconds >= 0]
            last = {do: 0.0 for _, do in due}
            run.began()
            while not run.ending.is_set():
                for seconds, do in due:
                    if time.monotonic() - last[do] >= seconds:
                        last[do] = time.monotonic()
                        await notes.catch_up()
                        lanes.update(self._lanes(notes))
                        await do()
                try:
                    async with asyncio.timeout(1):
                        await run.ending.wait()
                except TimeoutError:
                    continue

    def _lanes(self, notes: MirrorNotes) -> dict[TopicPartition, Lane]:
        """The partitions that are mirrored, as they were noted last."""
        policy, alias = self._settings.policy, self._settings.source.alias
        found: dict[TopicPartition, Lane] = {}
        for each in notes.partitions:
            place = notes.place(each)
            if place is not None:
                found[each] = Lane(
                    each, TopicPartition(policy.remote_topic(alias, each.topic), each.partition), 0, place
                )
        return found
