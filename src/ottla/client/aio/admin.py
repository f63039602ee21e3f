"""The asyncio face of administration, over a `Cluster`; faces/admin.py has its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.core.effects import ClientStory
from ottla.client.faces.admin import AdminCalls, admin_settings
from ottla.client.faces.call import Awaited, keywords
from ottla.client.model import ClientSettings

T = TypeVar("T")


class Admin(AdminCalls, Awaited):
    """Like `ottla.client.Admin`, for asyncio: every call is awaited, several may run at once.

    An async context manager. Errors are those of `ottla.client.Admin`.

        import asyncio

        from ottla.client import aio


        async def main() -> None:
            async with aio.Admin("localhost:9092") as admin:
                await admin.create_topic("rivers", partitions=3, configs={"retention.ms": "3600000"})
                print(sorted((await admin.list_topics())["rivers"].partitions))


        asyncio.run(main())
    """

    cluster: Cluster

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        settings: ClientSettings | None = None,
        cluster: Cluster | None = None,
        **options: Any,
    ) -> None:
        """`bootstrap` is one or several HOST:PORT, as for `Cluster`, and so are `settings` and `options`.

        `cluster` shares its connections; TypeError where settings or options are given beside it.
        """
        own = admin_settings(settings, options, cluster)
        self.cluster = cluster or Cluster(bootstrap, settings=own)

    @keywords
    async def close(self) -> None:
        """Close the connections, those of a shared `cluster` too; a later call opens new ones."""
        await self.cluster.close()

    async def _run(self, story: ClientStory[T]) -> T:
        return await self.cluster.run(story)
