"""The transactional client of the simulated workload that consumes: each input becomes one record, once.

Its offsets are committed in the transaction that holds the records it made of the inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.consume.fetch_session import SessionRequest, WantedPartition
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.records.faults import CorruptRecords
from ottla.sim.checkers.history import LogKey
from ottla.sim.checkers.transaction_history import OffsetsRead, OffsetsUnstable
from ottla.sim.readers import fetch_request, offset_of, parse
from ottla.sim.transaction_client import TransactionClient, Verdict
from ottla.sim.transaction_producers import ABORT_SHARE, Owner

if TYPE_CHECKING:
    from ottla.sim.setting import KnownTopic, Ledger

_BY_NAME = 9
_EARLIEST = -2
_MOST_INPUTS = 8


class Transformer(Owner):
    """Consumes one topic and writes one record to the ledger for each of its records, once."""

    def __init__(self, transactional_id: str, source: KnownTopic, transactions: Ledger) -> None:
        super().__init__(transactional_id, transactions)
        self.group = f"group-{transactional_id}"
        self.source = source
        self._positions: dict[str, dict[int, int]] = {}
        """The positions by process and partition."""

    @property
    def _all(self) -> list[int]:
        return list(range(self.source.plan.partitions))

    async def _step(self, client: TransactionClient) -> bool:
        positions = self._positions.get(client.name)
        if positions is None:
            found = await self.look_up(client, self._all)
            if found is None:
                await client.pause()
                return True
            positions = self._positions[client.name] = found
        partition = client.random.randrange(self.source.plan.partitions)
        inputs, following = await self._read(client, partition, positions[partition])
        if following == positions[partition]:
            return True
        client.begin()
        verdict = await self._transform(client, partition, inputs, (positions[partition], following))
        committed = client.random.random() >= ABORT_SHARE
        ended = await self.finish(client, verdict, committed=committed)
        del self._positions[client.name]  # the committed offsets are looked up again, whatever the outcome
        return ended

    async def _transform(
        self, client: TransactionClient, partition: int, inputs: list[int], move: tuple[int, int]
    ) -> Verdict:
        ledger = self.transactions.ledger
        target = client.random.randrange(ledger.plan.partitions)
        values = tuple(f"{client.transaction}:{partition}@{offset}".encode() for offset in inputs)
        verdict = Verdict.DONE
        if values:
            verdict = await client.add([(ledger, target)])
            if verdict is Verdict.DONE:
                verdict = await client.put(ledger, target, [values])
        if verdict is Verdict.DONE:
            verdict = await self._put_offsets(client, {partition: move})
        return verdict

    async def _put_offsets(self, client: TransactionClient, moves: dict[int, tuple[int, int]]) -> Verdict:
        return await client.put_offsets(self.group, self.source, moves)

    async def _read(self, client: TransactionClient, partition: int, position: int) -> tuple[list[int], int]:
        """The offsets of the next records, and where to go on."""
        name = self.source.plan.name
        peer = await client.peer.leader(name, partition)
        if peer is None:
            return [], position
        want = {TopicPartition(name, partition): WantedPartition(self.source.topic_id, position, -1, 600)}
        response = await peer.ask(fetch_request(SessionRequest(0, -1, want, {}), max_wait_ms=50, max_bytes=1 << 20))
        if response is None or response.error_code or not response.responses:
            client.peer.forget(name, partition)
            return [], position
        part = response.responses[0].partitions[0]
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await offset_of(client.peer, self.source, partition, _EARLIEST)
            return [], max(position, start or 0)
        if part.error_code or part.records is None:
            client.peer.forget(name, partition)
            return [], position
        try:
            records, _ = parse(part.records, position)
        except CorruptRecords as fault:
            log = LogKey(self.source.topic_id.hex(), partition)
            self.workload.unreadable(client.name, log, position, str(fault))
            return [], position
        offsets = [offset for offset, _ in records[:_MOST_INPUTS]]
        return offsets, offsets[-1] + 1 if offsets else position

    async def look_up(self, client: TransactionClient, partitions: list[int]) -> dict[int, int] | None:
        """The committed offsets; None without an answer, or while an open transaction may change one of them."""
        asked_us = client.now_us
        topic = OffsetFetchRequestTopics(name=self.source.plan.name, partition_indexes=partitions)
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group, topics=[topic])], require_stable=True
        )
        response = await client.ask_group(self.group, request, most=_BY_NAME)
        if response is None or response.groups[0].error_code:
            client.forget_group(self.group)
            return None
        found = {}
        for part in response.groups[0].topics[0].partitions:
            log = LogKey(self.source.topic_id.hex(), part.partition_index)
            if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self.workload.saw(OffsetsUnstable(asked_us, client.now_us, self.group, log))
            if part.error_code:
                return None
            found[part.partition_index] = max(part.committed_offset, 0)
            self.workload.saw(OffsetsRead(asked_us, client.now_us, self.group, log, part.committed_offset))
        return found

    async def _last_step(self, client: TransactionClient) -> bool:
        """Look up the committed offsets, which shows that no transaction is left open."""
        return await self.looked_up_all(client)

    async def looked_up_all(self, client: TransactionClient) -> bool:
        return await self.look_up(client, self._all) is not None
