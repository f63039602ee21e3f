"""A transforming client that shares its group: it consumes what its group assigns to it, each input once.

Members fall silent in the middle of a transaction, come back as zombies, and are succeeded by other processes. Each
sends its generation with its offsets: without that, an expelled member could commit what another one has consumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.sim.seats import PATIENCE_MS, SEATS, Seat
from ottla.sim.transaction_client import VERSION_1, TransactionClient, Verdict
from ottla.sim.transaction_producers import ABORT_SHARE
from ottla.sim.transformer import Transformer

if TYPE_CHECKING:
    from ottla.sim.setting import KnownTopic, Ledger

MEMBERS_GROUP = "transforming"
INPUTS_TAKEN_OVER = "input taken over from another member"
OFFSETS_REFUSED = "offsets of an expelled member refused"
MEMBER_ACTS = (INPUTS_TAKEN_OVER, OFFSETS_REFUSED)
"""Events among the members of the group."""
_LINGER_SHARE = 0.2
_LINGER_MS = (PATIENCE_MS, 3 * PATIENCE_MS)
_OUTLASTS_SHARE = 0.6
"""Share of processes whose transactions do not time out while they are silent."""
_NAMES_MEMBERS = 3
"""The first version of TxnOffsetCommit in which a producer names its consumer's generation."""


class TransformingMember(Transformer):
    """One member of the group. Each of its processes has a seat of its own."""

    def __init__(self, number: int, source: KnownTopic, transactions: Ledger, last_of: dict[int, str]) -> None:
        super().__init__(f"y{number}", source, transactions)
        self.group = MEMBERS_GROUP
        self._seats: dict[str, Seat] = {}
        self._last_of = last_of
        """By partition, the transactional id that has consumed it last; shared by all members."""

    def new_client(self) -> TransactionClient:
        client = super().new_client()
        if client.versions.offset_commit < _NAMES_MEMBERS:
            client.versions = VERSION_1[0]
        if client.random.random() < _OUTLASTS_SHARE:
            client.timeout_ms = max(client.timeout_ms, _LINGER_MS[1] + PATIENCE_MS)
        return client

    def _seat(self, client: TransactionClient) -> Seat:
        if client.name not in self._seats:
            kind = SEATS[self.transactions.plan.members_protocol]
            self._seats[client.name] = kind(client.name, self.group, self.source, self.workload)
        return self._seats[client.name]

    async def _step(self, client: TransactionClient) -> bool:
        seat = self._seat(client)
        if not await seat.keep() or not seat.owned:
            await client.pause()
            return True
        partition = client.random.choice(sorted(seat.owned))
        found = await self.look_up(client, [partition])
        if found is None:
            await client.pause()
            return True
        position = found[partition]
        inputs, following = await self._read(client, partition, position)
        if following == position:
            return True
        client.begin()
        verdict = await self._transform(client, partition, inputs, (position, following))
        committed = client.random.random() >= ABORT_SHARE
        await self._linger(client)
        if verdict is Verdict.DONE and committed:
            if self._last_of.get(partition, self.transactional_id) != self.transactional_id:
                self.transactions.count(INPUTS_TAKEN_OVER)
            self._last_of[partition] = self.transactional_id
        return await self.finish(client, verdict, committed=committed)

    async def _put_offsets(self, client: TransactionClient, moves: dict[int, tuple[int, int]]) -> Verdict:
        await self._linger(client)
        membership = self._seat(client).membership
        verdict = await client.put_offsets(self.group, self.source, moves, membership)
        if verdict is Verdict.GIVEN_UP:
            self.transactions.count(OFFSETS_REFUSED)
        return verdict

    async def _linger(self, client: TransactionClient) -> None:
        """Fall silent now and then, mostly for so long that the group expels the member."""
        if client.random.random() < _LINGER_SHARE and not self.workload.ending:
            await client.peer.sleep_us(client.random.randint(*_LINGER_MS) * 1000)
