"""The asyncio face of the cluster; `Admin`, `Producer` and `Consumer` are in modules beside this one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

from ottla.client.aio.driver import Driver, now_ms
from ottla.client.core import transfer
from ottla.client.core.effects import ClientStory
from ottla.client.core.plan import ClusterPlan
from ottla.client.faces.call import Awaited, keywords
from ottla.client.faces.cluster import ClusterCalls, RangeReading
from ottla.client.model import ClientSettings, Fetched, IsolationLevel, client_settings_from
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")


class Cluster(ClusterCalls, Awaited):
    """Like `ottla.client.Cluster`, for asyncio: several calls may run at once. An async context manager.

    Raises `ApiError` for an error code that another attempt would not cure, `ClientError` for everything else.

        import asyncio

        from ottla.client import aio
        from ottla.client.model import LATEST


        async def main() -> None:
            async with aio.Cluster("localhost:9092") as cluster:
                await aio.Admin(cluster=cluster).create_topic("lakes", partitions=2)
                for partition, at in (await cluster.list_offsets(await cluster.partitions("lakes"), LATEST)).items():
                    print(partition, at.offset)


        asyncio.run(main())
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        settings: ClientSettings | None = None,
        **options: Any,
    ) -> None:
        """Arguments and `options` are those of `ottla.client.Cluster`. No connection is made before the first call."""
        self.settings = client_settings_from("Cluster", settings, options)
        self.plan = ClusterPlan(bootstrap, self.settings, now_ms)
        self.driver = Driver(self.settings)

    @keywords
    async def close(self) -> None:
        """Close all connections. A later call opens new ones."""
        await self.driver.close()

    @keywords
    async def run(self, story: ClientStory[T]) -> T:
        """Drive one of the client's stories, for what has no method here."""
        return await self.driver.run(story)

    _run = run

    @keywords
    async def fetch_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_bytes: int = 4 * transfer.PARTITION_MAX_BYTES,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
    ) -> AsyncIterator[Fetched]:
        """The whole batches that hold offsets `start` to below `end`, piece by piece: filter by offset.

        Arguments and errors are those of `ottla.client.Cluster.fetch_range`; nothing is asked for ahead.
        """
        reading = RangeReading(
            self.plan,
            TopicPartition(topic, partition),
            start,
            end,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            timeout_ms=timeout_ms,
        )
        while reading.goes_on:
            piece = await self.run(reading.fetch())
            if piece is not None:
                yield piece
                reading.waits_anew()
