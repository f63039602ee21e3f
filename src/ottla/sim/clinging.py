"""A client of the simulated workload that stays with leaders whose lease has ended: they must not answer (rule A12).

It writes to and reads from brokers that were cut off from the store, or stood still, and still believe that they lead.
"""

from __future__ import annotations

from ottla.client.consume.fetch_session import SessionRequest, WantedPartition
from ottla.kernel.ids import TopicPartition
from ottla.records.compression import Codec
from ottla.sim.peer import Peer
from ottla.sim.producers import Producer
from ottla.sim.readers import fetch_request
from ottla.sim.setting import LateLeader

_LEADER = 1
"""acks"""
_NO_PRODUCER = (-1, -1)
_EVERY_US = (10_000, 60_000)
_MOST_BYTES = 10_000


class ClingingClient(Producer):
    """One such client, which never looks up leaders."""

    async def run(self) -> None:
        while not self.workload.ending:
            for found in self.workload.late_leaders():
                peer = self.peer.by_broker[found.broker]
                if self.random.random() < 0.5:
                    await self._write(peer, found)
                else:
                    await self._read(peer, found)
            await self.peer.sleep_us(self.random.randint(*_EVERY_US))
        self.peer.close()

    async def _write(self, peer: Peer, found: LateLeader) -> None:
        """Send one batch once; it may be appended, as the lease may be renewed before it arrives."""
        if not await peer.connect():
            return
        batch, log = self.new_batch(), found.topic.log(found.partition)
        self.sent(batch, log, _LEADER, idempotent=False)
        request = self.request(batch, found.topic, found.partition, _LEADER, _NO_PRODUCER, Codec.NONE)
        self.answered(log, batch, await peer.ask(request, most=self.version(found.topic)))

    async def _read(self, peer: Peer, found: LateLeader) -> None:
        """Fetch from the end that the broker knows, without a leader epoch; any answer but an error is an anomaly."""
        place = TopicPartition(found.topic.plan.name, found.partition)
        wanted = {place: WantedPartition(found.topic.topic_id, found.high_watermark, -1, _MOST_BYTES)}
        await peer.ask(fetch_request(SessionRequest(0, -1, wanted, {}), max_wait_ms=0, max_bytes=_MOST_BYTES))
