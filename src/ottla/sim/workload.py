"""The load on a simulated cluster: its clients, their knowledge of the topics, and the history of what they saw.

world.py starts it; its clients are stories over peer.py that write all they do and see into the history.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from ottla.access.names import ANONYMOUS
from ottla.kernel.ids import BrokerId, TopicId
from ottla.kernel.story import run_story
from ottla.messages.metadata import MetadataRequest
from ottla.sim.administrator import Administrator
from ottla.sim.assigned_group import AssignedGroup
from ottla.sim.checkers.history import Alive, Event, Failed, History, LogKey, Traits, Unreadable
from ottla.sim.checkers.state_log import open_transactions
from ottla.sim.clinging import ClingingClient
from ottla.sim.epoch_raiser import EpochRaiser
from ottla.sim.group_member import GroupMember
from ottla.sim.guests import Guests
from ottla.sim.late_markers import DELAYED, LateMarkers
from ottla.sim.latest_asker import LatestAsker
from ottla.sim.limiting import LimitingOperator
from ottla.sim.peer import PATIENT_MS, Caller, Peers
from ottla.sim.plan import PARTITION, STALLED, Plan, TopicPlan
from ottla.sim.producers import IdempotentProducer, PlainProducer, Prober
from ottla.sim.readers import Reader, Scanner
from ottla.sim.setting import KnownTopic, LateLeader, lasting_topics
from ottla.sim.shared_group import SharedMember
from ottla.sim.stage import Stage
from ottla.sim.transactions import Transactions
from ottla.sim.turns import TurningOperator
from ottla.sim.watchers import Committer, Watcher

_AGAIN_US = 50_000


class Workload:
    """All clients of one world. `start` starts them, `end` lets them finish and read everything."""

    def __init__(self, world: Stage) -> None:
        self.world = world
        self.plan: Plan = world.plan
        self.loop = world.loop
        self.history: History = world.history
        self.told = False
        """True once a story that runs in place of all clients has ended."""
        self.ending = False
        self.done = False
        """True once everything that has to be read at the end was read."""
        self.unfinished: dict[str, None] = {}
        self._topics: dict[str, KnownTopic] = {}
        self._running = 0
        self._keepers: list[IdempotentProducer | EpochRaiser] = []
        """Producers that logs must still know when they send again."""
        self.administrator = Administrator(self)
        self.assigned = AssignedGroup(self, self.plan.assigned_members)
        self.guests = Guests(self)
        self.limits = LimitingOperator(self)
        self.transactions = None if self.plan.transactions is None else Transactions(self, self.plan.transactions)

    # for the clients

    def peer(self, name: str, timeout_ms: int = PATIENT_MS, *, caller: Caller = ANONYMOUS) -> Peers:
        world = self.world
        return Peers(name, self.loop, world.network, world.machines, timeout_ms, world.hold, caller)

    def head(self) -> int:
        return self.world.store.head

    def all_know(self, version: int) -> bool:
        return self.world.all_know(version)

    def latest_wall_ms(self) -> int:
        return max(machine.latest_wall_ms for machine in self.world.machines.values())

    def topics(self) -> list[KnownTopic]:
        return [self._topics[name] for name in sorted(self._topics)]

    def some_topic(self, random: Random, *, durable: bool = False) -> KnownTopic | None:
        topics = [topic for topic in self.topics() if not (durable and topic.plan.cached)]
        return random.choice(topics) if topics else None

    def life_of(self, broker: BrokerId) -> int:
        return len(self.world.machines[broker].past)

    def late_leaders(self) -> list[LateLeader]:
        """Partitions of lasting topics that a broker still leads after its lease has ended."""
        found = []
        for broker, machine in self.world.machines.items():
            current = machine.serving
            if current is None or current.lease_ended_us() >= self.loop.now_us:
                continue
            for topic in lasting_topics(self):
                for index in range(topic.plan.partitions):
                    held = current.node.replicas.by_id.get((TopicId(topic.topic_id), index))
                    if held is not None and held.leader is not None:
                        found.append(LateLeader(broker, topic, index, held.leader.high_watermark))
        return found

    def directories_of(self, broker: BrokerId) -> Sequence[str]:
        return self.world.machines[broker].directories

    def a_disk_is_lost(self) -> bool:
        return any(self.world.invariants.is_lost(broker) for broker in self.world.machines)

    def keep_disks(self, keep: bool) -> None:
        self.world.invariants.keep_disks = keep

    def saw(self, event: Event) -> None:
        self.world.saw(event)

    def failed(self, what: str) -> None:
        self.saw(Failed(self.loop.now_us, what))

    def may_delete_to(self, log: LogKey, end: int) -> int:
        """The highest offset below which nobody needs the records any more."""
        needed = [one.keeps_from(log) for one in self._keepers]
        return min([end, *(offset for offset in needed if offset is not None)])

    def unreadable(self, reader: str, log: LogKey, position: int, why: str) -> None:
        """Report an answer that cannot be parsed, unless a flipped bit excuses it; the reader asks again then."""
        if self.world.invariants.decay.may_have_been_read((bytes.fromhex(log.topic_id), log.partition), position):
            self.world.note(f"{reader} reads flipped bits at {position} of {self.history.name(log)}")
        else:
            self.saw(Unreadable(self.loop.now_us, reader, log, why))

    def learn(self, plan: TopicPlan, topic_id: bytes) -> None:
        """Note that a topic exists under this id."""
        self._topics[plan.name] = KnownTopic(plan, topic_id)
        for partition in range(plan.partitions):
            traits = Traits(plan.name, retained=plan.retained, durable=not plan.cached, kept=plan.stable)
            self.history.traits[LogKey(topic_id.hex(), partition)] = traits

    def forget(self, name: str) -> None:
        self._topics.pop(name, None)

    # its course

    def start(self) -> None:
        self.spawn("administrator", self.administrator.run())
        plan = self.plan
        for number in range(plan.idempotent_producers):
            producer = IdempotentProducer(f"i{number}", self)
            self._keepers.append(producer)
            self.spawn(f"idempotent {number}", producer.run())
        for number in range(plan.plain_producers):
            self.spawn(f"plain {number}", PlainProducer(f"p{number}", self).run())
        for number in range(plan.readers):
            self.spawn(f"reader {number}", Reader(f"r{number}", self).run())
        for number in range(plan.groups):
            group = "g" if number == 0 else f"g{number}"
            self.spawn(f"member of {group}", GroupMember(group, self).run())
        for member in self.assigned.members:
            self.spawn(f"assigned member {member.number}", member.run())
        if plan.watches:
            self.spawn("committer", Committer(self).run())
            self.spawn("watcher", Watcher(self).run())
        if plan.contends:
            self._contend()
        if plan.clings:
            self.spawn("clinging client", ClingingClient("c", self).run())
        if plan.turns:
            self.spawn("turning operator", TurningOperator(self, self.administrator, self._set_apart).run())
        if plan.guests:
            self.spawn("doorkeeper", self.guests.run())
        if plan.limits_clients:
            self.spawn("limiting operator", self.limits.run())
        if self.transactions is not None:
            self.transactions.start()
            if self.transactions.plan.late_markers:
                self._delay_markers()

    def _set_apart(self, broker: BrokerId) -> Callable[[], None]:
        """Cut a broker off from the other brokers, not from clients and the store; the returned function ends that."""
        machines, network = self.world.machines, self.world.network
        host = machines[broker].host
        others = [machine.host for machine in machines.values() if machine.host != host]
        ways = [way for other in others for way in ((host, other), (other, host))]
        for way in ways:
            network.block(*way)
        self.world.disturbed(PARTITION)

        def join() -> None:
            for way in ways:
                network.unblock(*way)

        return join

    def _delay_markers(self) -> None:
        transactions = self.transactions
        assert transactions is not None

        def delayed() -> None:
            self.world.disturbed(STALLED)
            transactions.count(DELAYED)

        world = self.world
        late = LateMarkers(self, self.administrator, world.network, world.machines, delayed)
        self.spawn("late markers", late.run())

    def _contend(self) -> None:
        for number in range(self.plan.shared_members):
            self.spawn(f"shared member {number}", SharedMember(f"m{number}", self).run())
        raiser = EpochRaiser("e", self)
        self._keepers.append(raiser)
        self.spawn("epoch raiser", raiser.run())
        self.spawn("latest asker", LatestAsker("l", self).run())

    def end(self) -> None:
        """Let the clients finish after the end of the faults, write to every partition, and read every log."""
        self.ending = True
        self.spawn("last look", self._last_look())

    async def _last_look(self) -> None:
        peer = self.peer("prober")
        await self._find_topics(peer)
        prober = Prober("probe", self)
        places = [(topic, index) for topic in self.topics() for index in range(topic.plan.partitions)]
        for topic, partition in places:
            what = f"a write to {topic.plan.name}-{partition}"
            self.unfinished[what] = None
            while not await prober.probe(topic, partition):
                await peer.sleep_us(_AGAIN_US)
            del self.unfinished[what]
            self.saw(Alive(self.loop.now_us, LogKey(topic.topic_id.hex(), partition)))
        await self._while("a broker, a log directory, or a move to one", self.world.invariants.on_the_way)
        await self._in_sync(peer)
        await self._while("a flipped bit", self.world.invariants.flipped_bits)
        while self._running > 1:  # the other stories, which still finish their work
            await peer.sleep_us(_AGAIN_US)
        scanner = Scanner(self)
        for topic, partition in places:
            while not await scanner.scan(topic, partition):
                await peer.sleep_us(_AGAIN_US)
        if self.transactions is not None:
            await self.transactions.came_to_an_end(peer)
            machines = self.world.machines.values()
            await self._while("a transaction without records", lambda: open_transactions(machines))
            await self.transactions.look_up_offsets(peer)
            await self.transactions.scan(peer)
        self.done = True

    async def _while(self, what: str, holds: Callable[[], object]) -> None:
        """Wait until `holds` returns nothing."""
        self.unfinished[what] = None
        while holds():
            await self.peer("waiting").sleep_us(_AGAIN_US)
        del self.unfinished[what]

    async def _in_sync(self, peer: Peers) -> None:
        """Wait until every replica is in sync again."""
        for topic, partition in self.world.invariants.not_in_sync():
            what = f"all replicas of {topic}-{partition} in sync"
            self.unfinished[what] = None
            while (topic, partition) in self.world.invariants.not_in_sync():
                await peer.sleep_us(_AGAIN_US)
            del self.unfinished[what]

    async def _find_topics(self, peer: Peers) -> None:
        """Replace our view of the topics by the broker's."""
        self.unfinished["Metadata"] = None
        await self.administrator.settled(peer)
        head = self.world.store.head
        while not self.world.all_know(head):
            await peer.sleep_us(_AGAIN_US)
        while (response := await peer.ask(MetadataRequest(topics=None))) is None:
            await peer.sleep_us(_AGAIN_US)
        del self.unfinished["Metadata"]
        ids = {topic.name: bytes(topic.topic_id) for topic in response.topics if topic.error_code == 0}
        for plan in self.plan.topics:
            topic_id = ids.get(plan.name)
            if topic_id is not None:
                self.learn(plan, topic_id)
            elif plan.stable:
                self.failed(f"the topic {plan.name} is gone")
            else:
                self.forget(plan.name)

    def spawn(self, name: str, story: Coroutine[Any, None, None]) -> None:
        self._running += 1
        self.unfinished[name] = None
        slot = run_story(story)

        def ended() -> None:
            self._running -= 1
            self.unfinished.pop(name, None)
            slot.result()  # a client's own bug ends the run

        slot.when_full(ended)
