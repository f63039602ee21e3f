"""A producer of the simulated workload that raises its own epoch again and again.

Idempotent clients do so after an error. Once a batch of the new epoch is in the log, this one sends one of the epoch
before, which must be refused (KIP-360).
"""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.records.compression import Codec
from ottla.sim.checkers.history import LogKey, Outdated
from ottla.sim.checkers.transaction_history import IdGiven
from ottla.sim.producers import Producer
from ottla.sim.setting import KnownTopic, Setting, lasting_topics

_ALL = -1
_AGAIN_US = 40_000
_EVERY_US = (5_000, 150_000)
_LAST_EPOCH = 30_000


class EpochRaiser(Producer):
    """One producer id, one log."""

    def __init__(self, name: str, setting: Setting) -> None:
        super().__init__(name, setting)
        self._id = -1
        self._log: LogKey | None = None
        self._kept = 0

    def keeps_from(self, log: LogKey) -> int | None:
        """The offset of the newest batch, which has to stay, as the log knows our epoch by it."""
        return self._kept if log == self._log else None

    async def run(self) -> None:
        topic = await self._begin()
        if topic is None:
            return
        partition = self.random.randrange(topic.plan.partitions)
        self._log = topic.log(partition)
        epoch = 0
        while epoch < _LAST_EPOCH and await self._settle(topic, partition, epoch):
            if epoch:
                await self._come_late(topic, partition, epoch - 1)
            await self.peer.sleep_us(self.random.randint(*_EVERY_US))
            epoch += 1
        self.peer.close()

    async def _begin(self) -> KnownTopic | None:
        """Get a producer id and choose a topic; None if the world ends first."""
        while not self.workload.ending:
            topics = [topic for topic in lasting_topics(self.workload) if topic.plan.retained]
            if topics:
                asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                response = await self.peer.ask(asked)
                if response is not None and not response.error_code:
                    self._id = response.producer_id
                    self.workload.saw(IdGiven(self.workload.loop.now_us, self.name, self._id))
                    return self.random.choice(topics)
            await self.peer.sleep_us(_AGAIN_US)
        return None

    async def _settle(self, topic: KnownTopic, partition: int, epoch: int) -> bool:
        """Send the first batch of an epoch until it is acknowledged; False if the world ends first."""
        batch, log = self.new_batch(0), topic.log(partition)
        self.sent(batch, log, _ALL, idempotent=True)
        request = self.request(batch, topic, partition, _ALL, (self._id, epoch), Codec.NONE)
        while not self.workload.ending:
            peer = await self.peer.leader(topic.plan.name, partition)
            response = None if peer is None else await peer.ask(request, most=self.version(topic))
            if response is not None and self.answered(log, batch, response) is ErrorCode.NONE:
                self._kept = response.responses[0].partition_responses[0].base_offset
                return True
            self.peer.forget(topic.plan.name, partition)
            await self.peer.sleep_us(_AGAIN_US)
        return False

    async def _come_late(self, topic: KnownTopic, partition: int, epoch: int) -> None:
        """Send one batch of an epoch that is over, once."""
        peer = await self.peer.leader(topic.plan.name, partition)
        if peer is None or not await peer.connect():
            return
        batch, log = self.new_batch(0), topic.log(partition)
        self.sent(batch, log, _ALL, idempotent=True)
        self.workload.saw(Outdated(self.workload.loop.now_us, self.name, log, batch.number))
        request = self.request(batch, topic, partition, _ALL, (self._id, epoch), Codec.NONE)
        self.answered(log, batch, await peer.ask(request, most=self.version(topic)))
