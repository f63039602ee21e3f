"""The blocking face of administration, over a `Cluster`; faces/admin.py has its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ottla.client.blocking.cluster import Cluster
from ottla.client.core.effects import ClientStory
from ottla.client.faces.admin import AdminCalls, admin_settings
from ottla.client.faces.call import Blocking, keywords
from ottla.client.model import ClientSettings

T = TypeVar("T")


class Admin(AdminCalls, Blocking):
    """Administers a cluster. Calls on several resources return an `ApiError` in place of each that failed.

    A call raises what concerns all of it: `ClientError` where no broker can be asked (BrokerUnreachable,
    RequestTimedOut) or none serves the API (UnsupportedVersion), else `ApiError`. `timeout_ms` is the time that the
    broker has for a call. `cluster` is the `Cluster` whose connections the calls use. A context manager.

        from ottla.client import Admin, TopicPartition

        with Admin("localhost:9092") as admin:
            admin.create_topic("ships", partitions=3, configs={"retention.ms": "3600000"})
            print(sorted(admin.list_topics()["ships"].partitions))
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
    def close(self) -> None:
        """Close the connections, those of a shared `cluster` too; a later call opens new ones."""
        self.cluster.close()

    def _run(self, story: ClientStory[T]) -> T:
        return self.cluster.run(story)
