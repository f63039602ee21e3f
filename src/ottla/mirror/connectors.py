"""MirrorMaker 2's three connectors for Connect's workers, by Kafka's class names: flows and heartbeats as their tasks.

A task copies batches without opening them, so that converters and transformations have nothing to work on. It keeps its
places itself, at the target. The worker starts, stops, watches and restarts it.
"""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from ottla.client.errors import may_retry
from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.errors import ConfigException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, OffsetReader, SourceConnector, SourceTask
from ottla.connect.tasks.clients import below
from ottla.jobs.running_async import AsyncJobRun
from ottla.mirror.flow import Flow, Heartbeats
from ottla.mirror.measures import Measures
from ottla.mirror.options import OPTIONS, FlowSettings, mirrors_of
from ottla.mirror.translating import Translating

_PACKAGE: Final = "org.apache.kafka.connect.mirror."
_SOURCE, _TARGET = "source.cluster.", "target.cluster."
_ALIASES: Final = (
    Option("source.cluster.alias", Type.STRING, doc="The name of the source; its mirrors are called by it"),
    Option("target.cluster.alias", Type.STRING, "target", doc="The name of the target"),
)
_NOT_HERE: Final = re.compile(
    r"(transforms|predicates|(key|value|header)\.converter)($|\.)|(producer|consumer)\.override\."
)


def flow_of(config: Config) -> FlowSettings:
    """The flow that a connector's configuration describes, in the words of MirrorMaker 2's file."""
    opened = [name for name in config if _NOT_HERE.match(name)]
    if opened:
        raise ConfigException(
            f"{opened[0]} has no effect on a mirror, which copies batches without opening them: leave it out, and "
            f"write options of clients as {_SOURCE}NAME and {_TARGET}NAME"
        )
    parsed = ConfigDef(*_ALIASES).parse(config)
    source, target = parsed["source.cluster.alias"], parsed["target.cluster.alias"]
    given = {"clusters": f"{source},{target}", f"{source}->{target}.enabled": "true"}
    given |= {f"{source}.{name}": value for name, value in below(config, _SOURCE).items() if name != "alias"}
    given |= {f"{target}.{name}": value for name, value in below(config, _TARGET).items() if name != "alias"}
    given |= {name: value for name, value in config.items() if name in OPTIONS.options and name != "enabled"}
    [flow] = mirrors_of(given).flows
    return flow


class _MirrorTask(SourceTask):
    """Does the work of a flow instead of reading records: none go through Connect."""

    def __init__(self, work: Callable[[AsyncJobRun], Awaitable[None]]) -> None:
        self._work = work

    async def start(self, offsets: OffsetReader) -> None:
        """Begin at the places that are kept at the target, whatever Connect's offsets say."""

    async def read(self) -> None:
        """Work until cancelled, or until an error."""
        await self._work(AsyncJobRun(lambda: None))


class _MirrorConnector(SourceConnector):
    version = KAFKA_VERSION
    free_options = r"(source|target)\.cluster\..+"
    switch: ClassVar[str]
    """The option by which MirrorMaker 2's file switches the connector off."""

    @classmethod
    def options(cls) -> ConfigDef:
        """The aliases, and the options of MirrorMaker 2's file."""
        return ConfigDef(*_ALIASES, *OPTIONS)

    @classmethod
    def task(cls, config: Config) -> SourceTask:
        """The one task of the connector."""
        return _MirrorTask(cls.work(flow_of(config)))

    @classmethod
    @abstractmethod
    def work(cls, flow: FlowSettings) -> Callable[[AsyncJobRun], Awaitable[None]]:
        """The work of the task."""

    @classmethod
    def exactly_once(cls, config: Config) -> bool | None:
        """True: places are kept in the target's log itself, and no offset of Connect's decides."""
        return True

    @classmethod
    def restarts(cls, error: Exception) -> bool:
        """True for brokers that are away, and other faults that may pass."""
        return may_retry(error) or isinstance(error, ConnectionError | TimeoutError) or super().restarts(error)


class MirrorSourceConnector(_MirrorConnector):
    """Copies topics, keeps them in step, and tells of offsets."""

    java_class = f"{_PACKAGE}MirrorSourceConnector"

    @classmethod
    def work(cls, flow: FlowSettings) -> Callable[[AsyncJobRun], Awaitable[None]]:
        """A flow without its groups, which are the checkpoint connector's."""
        return Flow(flow, Measures(), asyncio.Lock(), with_groups=False).run


class MirrorCheckpointConnector(_MirrorConnector):
    """Translates the offsets of groups by the map that the source connector keeps."""

    java_class = f"{_PACKAGE}MirrorCheckpointConnector"

    @classmethod
    def work(cls, flow: FlowSettings) -> Callable[[AsyncJobRun], Awaitable[None]]:
        """Groups alone."""
        return Translating(flow).run


class MirrorHeartbeatConnector(_MirrorConnector):
    """Writes heartbeats to the target."""

    java_class = f"{_PACKAGE}MirrorHeartbeatConnector"

    @classmethod
    def work(cls, flow: FlowSettings) -> Callable[[AsyncJobRun], Awaitable[None]]:
        """Heartbeats alone."""
        return Heartbeats(flow).run
