"""Delays markers of transactions until another coordinator has sent them again, and later transactions are open.

One request with markers stalls on its connection. An administrator has another broker coordinate the transactions. That
broker sends the same markers, and the producers go on. The stalled request arrives when one of its producers has the
next transaction open in one of its partitions: it must not end that transaction. Drawn apart from all other faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.kernel.ids import BrokerId
from ottla.messages.headers import RequestHeader
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from ottla.schema.codec import decoder
from ottla.sim.administrator import Administrator
from ottla.sim.machine import Machine
from ottla.sim.network import Network, Wire
from ottla.sim.peek import has_gone_on
from ottla.sim.setting import Setting
from ottla.transactions.values import EPOCH_BUMPS
from ottla.wire.apis import APIS

DELAYED = "marker delayed until another broker coordinates"
_EVERY_US = (100_000, 900_000)
_AT_LAST_US = 2_000_000
"""The longest delay: the producer may be gone."""
_VERSION_1_SHARE = 0.5
_LOOK_US = 2_000
_SIZE_BYTES = 4
_MARKERS = next(api for api in APIS.values() if f"{api.name}Request" == WriteTxnMarkersRequest.__name__)


class _Held(NamedTuple):
    """A request that stalls."""

    wire: Wire
    markers: list[WritableTxnMarker]


class LateMarkers:
    """Holds one request after the other."""

    def __init__(
        self,
        workload: Setting,
        administrator: Administrator,
        network: Network,
        machines: Mapping[BrokerId, Machine],
        delayed: Callable[[], None],
    ) -> None:
        """`delayed` is called for each request that stalls."""
        self._workload = workload
        self._administrator = administrator
        self._network = network
        self._hosts = {machine.host: machine for machine in machines.values()}
        self._delayed = delayed
        self._random = Random(f"late-markers-{workload.plan.seed}")
        self._peer = workload.peer("operator of coordinators")
        self._held: _Held | None = None
        self._of_version_1 = False
        """True while we wait for the marker of a producer whose transactions share an epoch."""

    async def run(self) -> None:
        while not self._workload.ending:
            await self._peer.sleep_us(self._random.randint(*_EVERY_US))
            self._of_version_1 = self._random.random() < _VERSION_1_SHARE
            self._network.on_request = self._asked
            while self._held is None and not self._workload.ending:
                await self._peer.sleep_us(_LOOK_US)
            self._network.on_request = None
            if self._held is not None:
                await self._delay(self._held)
                self._held = None
        self._peer.close()

    def _asked(self, wire: Wire, frame: bytes) -> None:
        """Stall the connection if this is a request with markers; it is sent when the connection goes on."""
        if self._held is not None or wire.stalled:
            return
        header, at = decoder(RequestHeader, 1)(memoryview(frame), _SIZE_BYTES)
        if header.request_api_key != _MARKERS.key:
            return
        version = header.request_api_version
        _, at = decoder(RequestHeader, _MARKERS.request_header_version(version))(memoryview(frame), _SIZE_BYTES)
        request, _ = decoder(WriteTxnMarkersRequest, version)(memoryview(frame), at)
        if self._of_version_1 and all(each.transaction_version >= EPOCH_BUMPS for each in request.markers):
            return
        wire.stalled = True
        self._held = _Held(wire, request.markers)
        self._delayed()

    async def _delay(self, held: _Held) -> None:
        wire = held.wire
        coordinator, leader = (self._hosts[host] for host in wire.hosts)
        until_us = self._workload.loop.now_us + _AT_LAST_US
        if not self._workload.ending:
            await self._replace(coordinator.broker_id)
        while self._workload.loop.now_us < until_us and not self._workload.ending:
            if any(self._has_gone_on(leader, each) for each in held.markers):
                break
            await self._peer.sleep_us(_LOOK_US)
        wire.stalled = False
        wire.go_on()

    def _has_gone_on(self, leader: Machine, marker: WritableTxnMarker) -> bool:
        named = {(topic.name, index) for topic in marker.topics for index in topic.partition_indexes}
        return has_gone_on(leader, named, marker.producer_id, marker.coordinator_epoch)

    async def _replace(self, coordinator: BrokerId) -> None:
        """Elect other leaders for the coordinators' partitions that a broker leads."""
        topics = [MetadataRequestTopic(name=TRANSACTION_TOPIC)]
        response = await self._peer.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        found = [] if response is None else response.topics[0].partitions
        for part in found:
            others = [broker for broker in part.isr_nodes if broker != coordinator]
            if part.leader_id == coordinator and others:
                chosen = self._random.choice(others)
                index, replicas = part.partition_index, part.replica_nodes
                await self._administrator.prefer(TRANSACTION_TOPIC, index, chosen, replicas)
