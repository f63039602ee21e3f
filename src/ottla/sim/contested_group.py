"""A group of the simulated workload whose offsets two clients commit: one in transactions, the other plainly.

The group has no members. An offset that is committed plainly while the transaction is open stands after the commit of
the transaction, as its record is the later one (checkers/contested.py).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.sim.checkers.transaction_history import ContestedTaken, ContestedTold, ContestedUnstable
from ottla.sim.transaction_client import TransactionClient, Verdict
from ottla.sim.transaction_producers import ABORT_SHARE, Owner
from ottla.sim.watchers import find_coordinator

if TYPE_CHECKING:
    from ottla.sim.peer import Peer
    from ottla.sim.setting import KnownTopic, Ledger, Setting

CONTESTED_GROUP = "contested"
OVERTAKEN = "offset committed plainly over an open transaction"
"""An act of the two clients together."""
_BY_NAME = 9
_NO_GENERATION = -1
_EVERY_US = (30_000, 200_000)
_GREATEST_OFFSET = 2**40
_BEFORE_SHARE = 0.3
_MEANWHILE_SHARE = 0.6
_AGAIN_SHARE = 0.15
_PLAIN_SHARE = 0.3


def new_offset(random: Random) -> int:
    """An offset that no other client draws; a later one may be lower, so that its value tells nothing of its age."""
    return random.randrange(_GREATEST_OFFSET)


class PlainCommitter:
    """A client without transactions, which also fetches the offsets."""

    def __init__(self, name: str, source: KnownTopic, setting: Setting) -> None:
        self.source = source
        self.setting = setting
        self.random = Random(f"{name}-{setting.plan.seed}")
        self.peer = setting.peer(name, setting.plan.client_timeout_ms)
        self._coordinator: Peer | None = None

    async def run(self) -> None:
        while not self.setting.ending:
            partition = self.random.randrange(self.source.plan.partitions)
            if self.random.random() < _PLAIN_SHARE:
                await self.commit(partition)
            else:
                await self.look([partition])
            await self.peer.sleep_us(self.random.randint(*_EVERY_US))
        self.peer.close()

    async def commit(self, partition: int) -> bool:
        """Commit an offset once; True if that was answered, else it may be committed later."""
        offset = new_offset(self.random)
        place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=CONTESTED_GROUP,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=self.source.plan.name, partitions=[place])],
        )
        response = await self._ask(request)
        if response is None or response.topics[0].partitions[0].error_code:
            self._coordinator = None
            return False
        taken = TopicPartition(self.source.plan.name, partition)
        self.setting.saw(ContestedTaken(self.setting.loop.now_us, taken, offset))
        return True

    async def look(self, partitions: list[int]) -> bool:
        """Fetch offsets, with require_stable or without; False unless each was told."""
        stable, asked_us = self.random.random() < 0.5, self.setting.loop.now_us
        topic = OffsetFetchRequestTopics(name=self.source.plan.name, partition_indexes=partitions)
        group = OffsetFetchRequestGroup(group_id=CONTESTED_GROUP, topics=[topic])
        response = await self._ask(OffsetFetchRequest(groups=[group], require_stable=stable))
        if response is None or response.groups[0].error_code:
            self._coordinator = None
            return False
        told = 0
        for part in response.groups[0].topics[0].partitions:
            times = asked_us, self.setting.loop.now_us
            place = TopicPartition(self.source.plan.name, part.partition_index)
            if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self.setting.saw(ContestedUnstable(*times, place))
            elif not part.error_code:
                told += 1
                self.setting.saw(ContestedTold(*times, place, part.committed_offset, stable))
        return told == len(partitions)

    async def _ask(self, request: OffsetCommitRequest | OffsetFetchRequest) -> Any:
        if self._coordinator is None:
            self._coordinator = await find_coordinator(self.peer, CONTESTED_GROUP)
        return None if self._coordinator is None else await self._coordinator.ask(request, most=_BY_NAME)


class ContestedOwner(Owner):
    """Commits offsets of the group in transactions, while another client commits plainly for the same partition."""

    def __init__(self, transactional_id: str, source: KnownTopic, transactions: Ledger) -> None:
        super().__init__(transactional_id, transactions)
        self.group = CONTESTED_GROUP
        self.source = source
        self.rival = PlainCommitter(f"rival of {transactional_id}", source, self.workload)

    async def _step(self, client: TransactionClient) -> bool:
        partition = client.random.randrange(self.source.plan.partitions)
        if client.random.random() < _BEFORE_SHARE:
            await self.rival.commit(partition)
        client.begin()
        verdict = await self._put(client, partition)
        overtakes = verdict is Verdict.DONE and client.random.random() < _MEANWHILE_SHARE
        if overtakes and await self.rival.commit(partition):
            self.transactions.count(OVERTAKEN)
        if verdict is Verdict.DONE and client.random.random() < _AGAIN_SHARE:
            verdict = await self._put(client, partition)
        await self.rival.look([partition])
        committed = client.random.random() >= ABORT_SHARE
        return await self.finish(client, verdict, committed=committed)

    async def _put(self, client: TransactionClient, partition: int) -> Verdict:
        offset = new_offset(client.random)
        verdict = await client.commit_offsets(self.group, self.source.plan.name, {partition: offset})
        if verdict is Verdict.DONE:
            place = TopicPartition(self.source.plan.name, partition)
            self.workload.saw(ContestedTaken(client.now_us, place, offset))
        return verdict

    async def _last_step(self, client: TransactionClient) -> bool:
        return await self.looked_up_all(client)

    async def looked_up_all(self, client: TransactionClient) -> bool:
        """Look up all offsets by the rival's connections: true once each is told."""
        return await self.rival.look(list(range(self.source.plan.partitions)))
