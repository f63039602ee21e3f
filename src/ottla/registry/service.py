"""One instance of the registry: follows the topic, answers from its state, writes to the topic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.errors import ClientError, RequestTimedOut
from ottla.client.model import ClientSettings
from ottla.jobs.state_topic import Overtaken, Pair
from ottla.jobs.state_topic_setup import UnusableTopic
from ottla.kernel.errors import ApiError
from ottla.registry import errors
from ottla.registry.decide import RegistryDecision
from ottla.registry.given_ids import GivenIds, ids_in, missing_ids
from ottla.registry.records import GreatestIds, NoopKey
from ottla.registry.state import RegistryState
from ottla.registry.topic import DEFAULT_TOPIC, pairs, schemas_topic

T = TypeVar("T")
_PAUSE_S = 1.0
_log = logging.getLogger(__name__)


class Registry:
    """An async context manager. Reads see all that this instance has read; `fresh` catches up first."""

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str = DEFAULT_TOPIC,
        replication_factor: int = -1,
        settings: ClientSettings | None = None,
        timeout_ms: int = 30_000,
        accept_damage: bool = False,
    ) -> None:
        self.state = RegistryState()
        self._cluster = Cluster(bootstrap, settings=settings)
        self._following = Cluster(bootstrap, settings=settings)
        self.topic = schemas_topic(
            self._cluster,
            self.state.apply,
            topic=topic,
            replication_factor=replication_factor,
            timeout_ms=timeout_ms,
            accept_damage=accept_damage,
        )
        self._given = GivenIds(self._cluster, topic, replication_factor=replication_factor, timeout_ms=timeout_ms)
        self._writing = asyncio.Lock()
        self._follower: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Registry:
        try:
            await self._given.open()  # first: an instance that writes meanwhile notes an id before it appends it
            await self.topic.open()
            await self._compare_ids()
        except BaseException:
            await self._cluster.close()
            raise
        self._follower = asyncio.create_task(self._follow())
        return self

    async def _compare_ids(self) -> None:
        """Go on above all ids that were given, also where the topic has lost some of them; note those it has."""
        given = dict(self._given.greatest)
        for context, (here, number) in missing_ids(self.state, given).items():
            _log.error(
                "the topic %s has ids through %d in context '%s', and ids through %d were given, or about to be. Was "
                "the topic deleted, emptied, or restored from an older copy? New schemas get ids from %d on, so that "
                "no id gets a second meaning. Values with a missing id cannot be read: restore the topic, or register "
                "their schemas with their ids in mode IMPORT. If the ids are to begin anew, delete %s too",
                self.topic.partition.topic, here, context, number, number + 1, self._given.topic,
            )  # fmt: skip
        self.state.apply(NoopKey(), GreatestIds(given))
        await self._given.note({name: context.greatest_id for name, context in self.state.contexts.items()})

    async def __aexit__(self, *_: object) -> None:
        if self._follower is not None:
            self._follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._follower
        await self._following.close()
        await self._cluster.close()

    @property
    def cluster_id(self) -> str:
        return self._cluster.plan.metadata.cluster_id or ""

    async def fresh(self) -> None:
        """Read to the topic's end; RegistryError where that fails."""
        try:
            await self.topic.catch_up()
        except (ApiError, ClientError, UnusableTopic) as fault:
            raise errors.store_failed(str(fault)) from fault

    async def write(self, decide: Callable[[RegistryState], RegistryDecision[T]]) -> T:
        """Decide on the state at the topic's end and append; repeat until no other instance comes between."""
        async with self._writing:
            try:
                return await self._write(decide)
            except Overtaken as fault:
                raise errors.store_failed(str(fault)) from fault
            except RequestTimedOut as fault:
                raise errors.timed_out(str(fault)) from fault
            except (ApiError, ClientError, UnusableTopic) as fault:
                raise errors.store_failed(str(fault)) from fault

    async def _write(self, decide: Callable[[RegistryState], RegistryDecision[T]]) -> T:
        def decided() -> tuple[RegistryDecision[T], list[Pair]]:
            decision = decide(self.state)
            return decision, pairs(decision.records)

        async def note(decision: RegistryDecision[T]) -> None:
            await self._given.note(ids_in(decision.records))

        return (await self.topic.write(decided, before=note)).answer

    async def _follow(self) -> None:
        """Follow the topic; errors are logged and the read is repeated, while writes catch up by themselves."""
        while True:
            try:
                await self.topic.follow(self._following)
            except (ApiError, ClientError) as fault:
                _log.warning("cannot follow the registry's topic: %s", fault)
                await asyncio.sleep(_PAUSE_S)
            except UnusableTopic as fault:
                _log.error("%s", fault)
                return
