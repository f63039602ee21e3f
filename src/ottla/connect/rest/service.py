"""The worker behind the REST interface, as far as the interface needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.decide import ConnectDecision
from ottla.connect.machine.offsets import Change
from ottla.connect.machine.state import Configs, ConnectorState, Statuses
from ottla.metrics.metric import Sample

T = TypeVar("T")


class Service(Protocol):
    """One worker: the topics as it has read them, and its ways to change them."""

    view: WorkerView
    configs: Configs
    statuses: Statuses
    cluster_id: str
    makes_tasks_at_once: bool
    """True for a worker alone, whose answer to a new connector has its tasks, as in Kafka."""
    tracks_topics: bool
    """`topic.tracking.enable`."""
    resets_topics: bool
    """`topic.tracking.allow.reset`."""

    def metrics(self) -> Iterable[Sample]:
        """The counts of what runs here."""

    async def fresh(self) -> None:
        """Read the configs topic to its end."""

    async def write(self, decide: Callable[[], ConnectDecision[T]]) -> T:
        """Decide at the end of the configs topic and append; decide again where others were faster."""

    async def forget_topics(self, name: str) -> None:
        """Count no topic as used by a connector."""

    async def offsets(self, connector: ConnectorState) -> list[Any]:
        """The offsets of a connector, as REST shows them."""

    async def alter_offsets(self, connector: ConnectorState, changes: Sequence[Change] | None) -> None:
        """Set some offsets of a stopped connector, or with None remove all; raises `Refused`."""
