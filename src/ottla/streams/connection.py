"""The cluster of an application: its addresses, and Kafka's properties of security for every client of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ottla.cli.connect import client_settings
from ottla.cli.faults import Misuse
from ottla.client import Admin, ApiError, ClientError, Consumer
from ottla.client.model import ClientSettings
from ottla.client.security import OPTIONS
from ottla.streams.errors import ProcessingError, TopologyError
from ottla.streams.naming import nearest

KNOWN = (
    "client.id", "default.api.timeout.ms", "metadata.max.age.ms", "request.timeout.ms", "retry.backoff.ms", *OPTIONS,
)  # fmt: skip
"""The properties that a run in this process takes."""


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """The addresses of a cluster, and the settings of its clients."""

    bootstrap: str | Sequence[str]
    settings: ClientSettings = field(default_factory=ClientSettings)

    def admin(self) -> Admin:
        """A client that asks and changes the cluster."""
        return Admin(self.bootstrap, settings=self.settings)

    def reader(self, *, max_poll_records: int = 5_000) -> Consumer:
        """A client that reads what is committed in partitions that it is told."""
        return Consumer(
            self.bootstrap, settings=self.settings, isolation_level="read_committed", auto_offset_reset="earliest",
            max_poll_records=max_poll_records,
        )  # fmt: skip


@contextmanager
def told_partitions(topic: str) -> Iterator[None]:
    """Ask how many partitions a topic has; ProcessingError where it is not told."""
    try:
        yield
    except (ApiError, ClientError) as fault:
        raise ProcessingError(f"a partitioner needs the number of partitions of {topic}: {fault}") from fault


def connection(bootstrap: str | Sequence[str], kafka: Mapping[str, str] | None = None) -> ClusterConnection:
    """The connection with further properties of the client; TopologyError for one that is not known or wrong."""
    if not kafka:
        return ClusterConnection(bootstrap)
    if unknown := sorted(kafka.keys() - set(KNOWN)):
        raise TopologyError(
            f"{unknown[0]} is not a property that a run in this process takes{nearest(unknown[0], KNOWN)}"
        )
    try:
        made = client_settings(kafka, client_id=ClientSettings().client_id)
    except Misuse as fault:
        raise TopologyError(str(fault)) from None
    return ClusterConnection(bootstrap, replace(made, bootstrap_timeout_ms=ClientSettings().bootstrap_timeout_ms))
