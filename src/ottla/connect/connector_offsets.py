"""The offsets of connectors as REST shows and changes them: a source's in a store, a sink's in its consumer group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.client.admin.groups import delete_groups, delete_offsets
from ottla.client.aio.cluster import Cluster
from ottla.client.consume.offsets import commit_offsets, committed_offsets
from ottla.client.model import CommittedOffset
from ottla.connect.errors import ConfigException
from ottla.connect.machine.offsets import Change, reading_group, require_stopped, sink_changes, sink_offset
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.state import Config, ConnectorState
from ottla.connect.machine.validation import plugin_of
from ottla.connect.plugins.base import SourceConnector
from ottla.connect.tasks.offsets import OffsetStore
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition

_log = logging.getLogger("ottla.connect")


class ConnectorOffsets:
    """Reads and changes the offsets of any connector of a worker."""

    def __init__(
        self, cluster: Cluster, store_of: Callable[[Config], OffsetStore], resolved: Callable[[Config], Config]
    ) -> None:
        """`store_of`: the store of a source's configuration; `resolved` puts secrets into one."""
        self._cluster, self._store_of, self._resolved = cluster, store_of, resolved

    async def shown(self, connector: ConnectorState) -> list[Any]:
        """The offsets of a connector."""
        if plugin_of(connector.config).kind == "source":
            kept = await self._store_of(connector.config).all(connector.name)
            return [{"partition": dict(partition), "offset": dict(offset)} for partition, offset in kept]
        found = await self._cluster.run(committed_offsets(self._cluster.plan, _group_of(connector)))
        return [sink_offset(place, committed.offset) for place, committed in sorted(found.items())]

    async def alter(self, connector: ConnectorState, changes: Sequence[Change] | None) -> None:
        """Set some offsets of a stopped connector, or with None remove all; raises `CallRefused`."""
        require_stopped(connector)
        plugin = plugin_of(connector.config)
        if not issubclass(plugin, SourceConnector):
            try:
                plugin.check_offsets(self._resolved(connector.config))
            except ConfigException as fault:
                raise CallRefused(400, str(fault)) from fault
            await self._alter_group(connector, None if changes is None else sink_changes(changes))
            return
        store = self._store_of(connector.config)
        if changes is None:
            changes = [(partition, None) for partition, _ in await store.all(connector.name)]
        try:
            plugin.check_offsets(self._resolved(connector.config), changes)
        except ConfigException as fault:
            raise CallRefused(500, str(fault)) from fault
        await store.write(connector.name, changes)

    async def _alter_group(
        self, connector: ConnectorState, changes: Mapping[TopicPartition, int | None] | None
    ) -> None:
        run, plan, group = self._cluster.run, self._cluster.plan, _group_of(connector)
        if changes is None:
            outcome = (await run(delete_groups(plan, [group])))[group]
            faults = [outcome] if outcome is not None and outcome.code is not ErrorCode.GROUP_ID_NOT_FOUND else []
        else:
            new = {place: CommittedOffset(offset) for place, offset in changes.items() if offset is not None}
            gone = [place for place, offset in changes.items() if offset is None]
            outcomes = await run(commit_offsets(plan, group, new)) if new else {}
            outcomes |= await run(delete_offsets(plan, group, gone)) if gone else {}
            faults = [fault for fault in outcomes.values() if fault is not None]
        if faults:
            _log.warning("%s: its offsets cannot be set: %s", connector.name, faults[0])
            raise CallRefused(500, f"Failed to alter consumer group offsets for connector {connector.name}")


def _group_of(connector: ConnectorState) -> str:
    return reading_group(connector.config, connector.name)
