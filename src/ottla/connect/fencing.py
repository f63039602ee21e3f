"""Rounds of fencing: before a new set of a connector's tasks begins, the producers of all earlier ones are fenced.

The worker that owns the connector does a round, and records it in the configs topic; tasks wait for that record. Kafka
has its workers ask the leader over HTTP for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.core.transfer import init_producer_id
from ottla.client.errors import ClientError
from ottla.connect.errors import RetriableException
from ottla.connect.machine.assignment import Unit
from ottla.connect.machine.decide import ConnectDecision, count_tasks
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.state import Configs
from ottla.connect.tasks.exactly_once import transactional_id
from ottla.jobs.state_topic import Overtaken
from ottla.jobs.state_topic_setup import UnusableTopic
from ottla.kernel.errors import ApiError

T = TypeVar("T")
_PAUSE_S: Final = 1.0
_log = logging.getLogger("ottla.connect")


class ConfigsTopic(Protocol):
    """The worker, as far as fencing needs it."""

    configs: Configs

    async def fresh(self) -> None:
        """Read the configs topic to its end."""

    async def write(self, decide: Callable[[], ConnectDecision[T]]) -> T:
        """Decide at the end of the configs topic and append."""


class Fencing:
    """The fence of one worker's tasks."""

    def __init__(self, worker: ConfigsTopic, cluster: Cluster, group_id: str, holds: Callable[[Unit], bool]) -> None:
        """`holds`: whether a task is this worker's, as far as it knows."""
        self._worker, self._cluster, self._group_id, self._holds = worker, cluster, group_id, holds
        self._changed = asyncio.Event()
        self._rounds: dict[str, asyncio.Task[None]] = {}

    def stir(self) -> None:
        """Have those who wait look at the configs again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def begin(self, connector: str) -> None:
        """Do a round in the background, where one is due and none is under way."""
        under_way = self._rounds.get(connector)
        if self._worker.configs.unfenced(connector) is not None and (under_way is None or under_way.done()):
            self._rounds[connector] = asyncio.create_task(self._round_until_done(connector))

    async def close(self) -> None:
        """End the rounds under way."""
        for task in self._rounds.values():
            task.cancel()
        await asyncio.gather(*self._rounds.values(), return_exceptions=True)

    async def round(self, connector: str) -> None:
        """Fence the producers of all sets of tasks before the present one, and record it."""
        await self._worker.fresh()
        configs = self._worker.configs
        of_round, earlier = configs.round(connector), configs.unfenced(connector)
        if earlier is None:
            return
        ids = [transactional_id(self._group_id, connector, task) for task in range(earlier)]
        await asyncio.gather(*(self._cluster.run(init_producer_id(self._cluster.plan, each)) for each in ids))
        await self._worker.write(lambda: count_tasks(configs, connector, of_round))

    async def cleared(self, connector: str, task: int) -> int:
        """The present round, once all producers of earlier ones are fenced and while the task belongs here."""
        configs = self._worker.configs
        while True:
            changed = self._changed
            await self._worker.fresh()
            if configs.unfenced(connector) is None:
                break
            await changed.wait()
        of_round = configs.round(connector)
        await self.confirm(connector, task, of_round)
        return of_round

    async def confirm(self, connector: str, task: int, of_round: int) -> None:
        """Raise where the round is over, or the task belongs to another worker by now."""
        await self._worker.fresh()
        if self._worker.configs.round(connector) != of_round or not self._holds(Unit(connector, task)):
            raise RetriableException(f"the task {connector}-{task} was given out anew while it began")

    async def _round_until_done(self, connector: str) -> None:
        while self._worker.configs.get(connector) is not None:
            try:
                await self.round(connector)
                return
            except (ApiError, ClientError, CallRefused, Overtaken, UnusableTopic) as fault:
                _log.warning("%s: earlier producers cannot be fenced, and its tasks wait: %s", connector, fault)
                await asyncio.sleep(_PAUSE_S)
