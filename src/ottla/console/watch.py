"""Takes samples of the cluster while somebody looks at pages: rates, lags, the load of brokers."""

from __future__ import annotations

import asyncio
import logging
import time

from ottla.client.admin.loads import Load, Told, measured
from ottla.client.aio.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.model import LATEST, CommittedOffset, OffsetAtTime
from ottla.console.samples import Samples
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition

EVERY_S = 5.0
_SHARE = 20
"""A look takes at most one part in so many of the time: large clusters are looked at less often."""
_UNWATCHED_S = 120.0
_AT_ONCE = 16
MOST_GROUPS = 500
"""Groups whose lag is in the samples; pages of single groups ask for themselves."""
log = logging.getLogger("ottla.console")


class ClusterWatch:
    """The samples of one cluster, taken in a task that ends when nobody has asked for a while."""

    def __init__(self, admin: Admin) -> None:
        self.samples = Samples()
        self.loads: dict[int, Load] = {}
        self.fault = ""
        """The reason why the last look failed."""
        self._admin = admin
        self._told: dict[int, Told] = {}
        self._task: asyncio.Task[None] | None = None
        self._asked_s = 0.0

    def wanted(self) -> None:
        """Somebody looks: take samples for a while."""
        self._asked_s = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._go_on())

    async def close(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _go_on(self) -> None:
        while time.monotonic() - self._asked_s < _UNWATCHED_S:
            began = time.monotonic()
            try:
                await self.look()
                self.fault = ""
            except (ApiError, ClientError) as fault:
                self.fault = str(fault)
                log.warning("no sample was taken: %s", fault)
            await asyncio.sleep(max(EVERY_S, (time.monotonic() - began) * _SHARE))

    async def look(self) -> None:
        """Take one sample."""
        topics = await self._admin.list_topics()
        places = [
            TopicPartition(topic, index)
            for topic, view in topics.items()
            for index, part in view.partitions.items()
            if part.leader >= 0
        ]
        ends = await self._admin.list_offsets(dict.fromkeys(places, LATEST))
        at_ms = time.time() * 1000
        known = {place: found.offset for place, found in ends.items() if isinstance(found, OffsetAtTime)}
        sums: dict[str, int] = {}
        for place, end in known.items():
            sums[place.topic] = sums.get(place.topic, 0) + end
        self.samples.look(at_ms, sums, await self._lags(known))
        told = await self._admin.broker_loads()
        self.loads = measured(self._told, told, await self._admin.describe_log_dirs())
        self._told = told
        for name in ("bytes_in", "bytes_out"):
            rates = [getattr(load, f"{name}_per_s") for load in self.loads.values()]
            if any(rate is not None for rate in rates):
                self.samples.courses.add(name, sum(rate or 0.0 for rate in rates))

    async def _lags(self, ends: dict[TopicPartition, int]) -> dict[str, int]:
        groups = sorted(group.group_id for group in await self._admin.list_groups())[:MOST_GROUPS]
        lags: dict[str, int] = {}
        for at in range(0, len(groups), _AT_ONCE):
            some = groups[at : at + _AT_ONCE]
            found = await asyncio.gather(*map(self._admin.committed_offsets, some), return_exceptions=True)
            for group, committed in zip(some, found, strict=True):
                if isinstance(committed, dict):
                    lags[group] = lag_of(committed, ends)
                elif not isinstance(committed, ApiError | ClientError):
                    raise committed
        return lags


def lag_of(committed: dict[TopicPartition, CommittedOffset], ends: dict[TopicPartition, int]) -> int:
    """The records between what is committed and the ends that are known."""
    return sum(max(0, ends[place] - at.offset) for place, at in committed.items() if place in ends and at.offset >= 0)
