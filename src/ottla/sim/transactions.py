"""The part of the simulated workload that has transactions: one topic, its producers and its readers.

workload.py starts it, in the worlds whose plan has transactions.
"""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.sim.checkers.history import LogKey, Traits, TransactionsEnded
from ottla.sim.checkers.transaction_history import AllEnded
from ottla.sim.contested_group import OVERTAKEN, ContestedOwner, PlainCommitter
from ottla.sim.late_markers import DELAYED
from ottla.sim.plan import TopicPlan, TransactionPlan
from ottla.sim.topics import create_topic
from ottla.sim.transaction_producers import TRANSACTION_ACTS, Bystander, Forsaker, Transactor
from ottla.sim.transaction_readers import TransactionReader, TransactionScanner
from ottla.sim.transformer import Transformer
from ottla.sim.transforming_member import MEMBER_ACTS, TransformingMember

if TYPE_CHECKING:
    from ottla.sim.peer import Peers
    from ottla.sim.setting import Course, KnownTopic

EXPECTED_ACTS = (*TRANSACTION_ACTS, OVERTAKEN)
"""Acts and events that every campaign must have."""
ALL_ACTS = (*EXPECTED_ACTS, *MEMBER_ACTS, DELAYED)
_AGAIN_US = 50_000
_SHORTEST_PAUSE_US = (20_000, 150_000)
"""Transactions are expensive: each takes some six requests and two entries of its coordinator."""


class Transactions:
    """All transactional clients of one world."""

    ledger: KnownTopic
    """The topic that all transactions write to."""

    def __init__(self, workload: Course, plan: TransactionPlan) -> None:
        self.workload = workload
        self.random = Random(f"ledger-{workload.plan.seed}")
        self.plan = plan
        self._topics: tuple[KnownTopic, ...] = ()
        self.done = dict.fromkeys(ALL_ACTS, 0)
        self._with_offsets: list[Transformer | ContestedOwner] = []
        """One client of each group whose offsets are committed in transactions."""
        least, most = workload.plan.pause_us
        self.pause_us = max(least, _SHORTEST_PAUSE_US[0]), max(most, _SHORTEST_PAUSE_US[1])

    def count(self, act: str) -> None:
        self.done[act] += 1

    def spawn(self, name: str, story: Coroutine[Any, None, None]) -> None:
        self.workload.spawn(name, story)

    def topics(self) -> tuple[KnownTopic, ...]:
        """The topics that transactions depend on, once they exist."""
        return self._topics

    def start(self) -> None:
        self.spawn("transactions", self._begin())

    async def _begin(self) -> None:
        """Create the topic, then start the clients."""
        self.ledger = await self._create()
        self._topics = (self.ledger, *self._internal())
        for number in range(self.plan.producers):
            self.spawn(f"transactor {number}", Transactor(f"t{number}", self).run())
        self.spawn("transaction reader", TransactionReader("tc", self, committed=True).run())
        if self.plan.reads_uncommitted:
            self.spawn("transaction reader at read_uncommitted", TransactionReader("tu", self, committed=False).run())
        if self.plan.has_bystander:
            self.spawn("bystander", Bystander("tb", self.workload).stand_by(self))
        if self.plan.forsakes:
            self.spawn("forsaker", Forsaker("f", self).run())
        if self.plan.transforms:
            self.spawn("transformer", self._transform())
        if self.plan.members:
            self.spawn("transforming members", self._transform_in_a_group())
        if self.plan.contests:
            self.spawn("contested group", self._contest())

    async def _create(self) -> KnownTopic:
        from ottla.sim.setting import KnownTopic

        plan = self.plan.ledger
        peer = self.workload.peer("transactions")
        while True:
            topic_id = await create_topic(peer, plan, self.workload.plan.replication) or await _find(peer, plan.name)
            if topic_id is not None:
                break
            await peer.sleep_us(_AGAIN_US)
        peer.close()
        for partition in range(plan.partitions):
            self.workload.history.traits[LogKey(topic_id.hex(), partition)] = Traits(plan.name)
        return KnownTopic(plan, topic_id)

    def _internal(self) -> list[KnownTopic]:
        from ottla.sim.setting import KnownTopic

        texts = dict(self.workload.plan.broker_texts)
        counts = {
            OFFSETS_TOPIC: int(texts["offsets.topic.num.partitions"]),
            TRANSACTION_TOPIC: int(texts["transaction.state.log.num.partitions"]),
        }
        return [KnownTopic(TopicPlan(name, count, ()), b"") for name, count in counts.items()]

    async def _transform(self) -> None:
        source = await self._source("transformer")
        if source is not None:
            transformer = Transformer("x0", source, self)
            self._with_offsets.append(transformer)
            await transformer.run()

    async def _transform_in_a_group(self) -> None:
        """Start several members that share one group and one source."""
        source = await self._source("transforming members")
        if source is None:
            return
        last_of: dict[int, str] = {}
        members = [TransformingMember(number, source, self, last_of) for number in range(self.plan.members)]
        self._with_offsets.append(members[0])
        for member in members:
            self.spawn(f"transforming member {member.transactional_id}", member.run())

    async def _contest(self) -> None:
        """Start two clients that commit offsets of one group, in transactions and plainly."""
        source = await self._source("contested group")
        if source is not None:
            owner = ContestedOwner("o0", source, self)
            self._with_offsets.append(owner)
            self.spawn("plain committer", PlainCommitter("plain committer", source, self.workload).run())
            await owner.run()

    async def _source(self, name: str) -> KnownTopic | None:
        """The first topic that is never deleted, once it exists; None if the world ends before."""
        peer = self.workload.peer(name)
        while True:
            found = [topic for topic in self.workload.topics() if topic.plan.stable and topic.plan.retained]
            sources = [topic for topic in found if not topic.plan.cached]
            if sources or self.workload.ending:
                return sources[0] if sources else None
            await peer.sleep_us(_AGAIN_US)

    # --- the last look ---

    async def came_to_an_end(self, peer: Peers) -> None:
        """Wait until every log is stable to its end, with no transaction open."""
        scanner = TransactionScanner(self)
        for partition in range(self.ledger.plan.partitions):
            what = f"an end of all transactions in {self.ledger.plan.name}-{partition}"
            self.workload.unfinished[what] = None
            while not await scanner.is_stable(self.ledger, partition):
                await peer.sleep_us(_AGAIN_US)
            del self.workload.unfinished[what]
            log = LogKey(self.ledger.topic_id.hex(), partition)
            self.workload.saw(TransactionsEnded(self.workload.loop.now_us, log))

    async def look_up_offsets(self, peer: Peers) -> None:
        """Once no transaction is open, fetch the offsets of each group that commits some in transactions."""
        self.workload.saw(AllEnded(self.workload.loop.now_us))
        for owner in self._with_offsets:
            what = f"the last offsets of {owner.group}"
            self.workload.unfinished[what] = None
            client = owner.new_client()
            while not await owner.looked_up_all(client):
                await peer.sleep_us(_AGAIN_US)
            client.peer.close()
            del self.workload.unfinished[what]

    async def scan(self, peer: Peers) -> None:
        scanner = TransactionScanner(self)
        for partition in range(self.ledger.plan.partitions):
            while not await scanner.scan(self.ledger, partition):
                await peer.sleep_us(_AGAIN_US)


async def _find(peer: Peers, name: str) -> bytes | None:
    asked = [MetadataRequestTopic(name=name)]
    response = await peer.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    if response is None or response.topics[0].error_code:
        return None
    return bytes(response.topics[0].topic_id)
