"""Plays a world from a script, which names each event, its target and the order, instead of drawing them from a seed.

A script is a TOML file beside this one. Its `story` is a list of steps; each step waits until its effect is there. The
machines, disks, network and judges are those of every simulated world. Times and delays are not drawn: each has one
value, and the steps keep the order. After the last step the world is healed and judged like any other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.sim.scripts.disks import DiskSteps

from ottla.broker.replicas.partition import Partition
from ottla.client.consume.fetch_session import SessionRequest, WantedPartition
from ottla.cluster.caretaker import NEWCOMER_MS
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.records.compression import Codec
from ottla.sim.checkers.history import DeleteAsked, DeleteDone, Failed, OutOfRange, Polled
from ottla.sim.coordination import CALM
from ottla.sim.machine import Machine
from ottla.sim.plan import Plan, TopicPlan
from ottla.sim.producers import Prober
from ottla.sim.readers import fetch_request, parse
from ottla.sim.setting import KnownTopic
from ottla.sim.topics import create_topic
from ottla.sim.workload import Workload
from ottla.sim.world import Result, World

HERE = Path(__file__).parent
_AGAIN_US = 5_000
_STORY_MS = 120_000
_HEALED_MS = 60_000
_TOPIC = "told"
_LEADER = 1
"""acks"""
_TOPIC_RESOURCE, _SET = 2, 0
_OPTIONS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1000",
}


class Edit(NamedTuple):
    """An edit of the source that removes the fix again; `old` occurs exactly once in the file."""

    file: str
    old: str
    new: str


class Script(NamedTuple):
    """A world that failed once."""

    name: str
    title: str
    seed: int
    """The seed that found the fault."""
    mended: str
    """The commit that fixed it."""
    found: tuple[str, ...]
    """Kinds of anomalies, of which one shows up without the fix."""
    without: tuple[Edit, ...]
    story: tuple[tuple[Any, ...], ...]
    topic: dict[str, str]
    """Options of the topic."""
    options: dict[str, str]
    """Options of all brokers."""
    more_directories: tuple[str, ...]
    """Log directories beside the first."""


def scripts() -> list[Script]:
    return [read(path) for path in sorted(HERE.glob("*.toml"))]


def read(path: Path) -> Script:
    told = tomllib.loads(path.read_text())
    return Script(
        path.stem,
        told["title"],
        told["seed"],
        told["mended"],
        tuple(told["found"]),
        tuple(Edit(**edit) for edit in told["without"]),
        tuple(tuple(step) for step in told["story"]),
        told.get("topic", {}),
        told.get("options", {}),
        tuple(told.get("more_directories", ())),
    )


def play(script: Script, on_note: Callable[[int, str], None] | None = None) -> Result:
    return Stage(script, on_note).run()


def _plan(script: Script) -> Plan:
    """A plan of three brokers without any fault but those of the story."""
    topic = TopicPlan(
        _TOPIC, 1, tuple(sorted(script.topic.items())), cached=script.topic.get("write.caching") == "true"
    )
    return Plan(
        seed=0,
        busy_ms=_STORY_MS,
        healed_within_ms=_HEALED_MS,
        topics=(topic,),
        idempotent_producers=0,
        plain_producers=0,
        readers=0,
        groups=0,
        window=1,
        value_bytes=(40, 40),
        pause_us=(1000, 1000),
        network_us=(200, 200),
        sync_us=(1000, 1000),
        faults=(),
        fault_every_ms=(1, 1),
        harsh=1.0,
        broker_texts=tuple(sorted((_OPTIONS | script.options).items())),
        brokers=3,
        replication=3,
        more_directories=script.more_directories,
        store_elsewhere=bool(script.more_directories),
        edits_required=any(verb == "require in sync" for verb, *_ in script.story),
    )


class _Least(Random):
    """A random source that draws nothing: each batch has `records` records of the least size."""

    def __init__(self, records: int) -> None:
        super().__init__(0)
        self._records = records

    def randint(self, a: int, b: int) -> int:
        return self._records if a == 1 else a


class Stage(World):
    """A world in which a story is played."""

    def __init__(self, script: Script, on_note: Callable[[int, str], None] | None = None) -> None:
        super().__init__(_plan(script), on_note)
        self.workload = Story(self, script)
        if any(verb in ("part", "block") for verb, *_ in script.story):
            self.invariants.may_evict()


class Story(Workload):
    """The only client: carries out the script, step by step. Each verb of a script is one method here."""

    topic: KnownTopic
    _replicas: tuple[BrokerId, ...]

    def __init__(self, stage: Stage, script: Script) -> None:
        super().__init__(stage)
        self._script = script
        self.teller = self.peer("teller", 800)
        self._writer = Prober("writer", self)
        self._writer.random = _Least(1)
        self._verbs = {
            "write": self._write,
            "write one of": self._write_large,
            "write alone": self._write_alone,
            "make topic": self._make_topic,
            "delete topic at": self._delete_topic,
            "kill": self._kill,
            "cut power of": self._cut_power,
            "start": self._start,
            "part": self._part,
            "join": self._join,
            "cut store of": self._cut_store,
            "mend store of": self._mend_store,
            "in sync are": self._are_in_sync,
            "leader is": self._leader_is,
            "prefer": self._prefer,
            "require in sync": self._require,
            "delete to": self._delete,
            "read": self._read,
            "block": self._block,
        } | DiskSteps(self).verbs

    def start(self) -> None:
        self.spawn("a story", self._tell())

    def end(self) -> None:
        if not self.told:
            self.saw(Failed(self.loop.now_us, f"never came to pass: {', '.join(self.unfinished)}", "stuck"))
        super().end()

    async def _tell(self) -> None:
        plan = self.plan.topics[0]
        while (topic_id := await create_topic(self.teller, plan, self.plan.replication)) is None:
            await self.teller.sleep_us(_AGAIN_US)
        self.learn(plan, topic_id)
        self.topic = self.topics()[0]
        await self.until(lambda: self._state() is not None)
        self._replicas = self._state().replicas
        await self._leader_is(1)
        await self._are_in_sync(1, 2, 3)
        await self.teller.sleep_us(2 * NEWCOMER_MS * 1000)  # then elections take the replicas in their order
        for verb, *said in self._script.story:
            step = f"{verb} {said}"
            self.world.note(step)
            self.unfinished[step] = None
            await self._verbs[verb](*said)
            del self.unfinished[step]
        self.told = True

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.teller.sleep_us(_AGAIN_US)

    # --- clients ---

    async def _write(self, count: int) -> None:
        """Write `count` batches, each until all in-sync replicas have acknowledged it."""
        for _ in range(count):
            while not await self._writer.probe(self.topic, 0):
                await self.teller.sleep_us(_AGAIN_US)

    async def _write_large(self, records: int) -> None:
        """Write one batch of `records` records, until all in-sync replicas have acknowledged it."""
        self._writer.random = _Least(records)
        await self._write(1)
        self._writer.random = _Least(1)

    async def _write_alone(self, count: int, broker: int = 1) -> None:
        """Write `count` batches at the leader, which answers before any follower has them."""
        peer, log = self.teller.by_broker[self._broker(broker)], self.topic.log(0)
        for _ in range(count):
            batch = self._writer.new_batch()
            self._writer.sent(batch, log, _LEADER, idempotent=False)
            request = self._writer.request(batch, self.topic, 0, _LEADER, (-1, -1), Codec.NONE)
            assert self._writer.answered(log, batch, await peer.ask(request)) is ErrorCode.NONE

    async def _make_topic(self, name: str) -> None:
        while await create_topic(self.teller, TopicPlan(name, 1, ()), self.plan.replication) is None:
            await self.teller.sleep_us(_AGAIN_US)

    async def _delete_topic(self, name: str, broker: int) -> None:
        """Ask this broker once to delete a topic; it may fail, but not answer that there is no such topic."""
        peer = self.teller.by_broker[self._broker(broker)]
        asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=500)
        response = await peer.ask(asked, timeout_ms=5000)
        assert response is not None
        if response.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.saw(Failed(self.loop.now_us, f"{name} is there, and broker {broker} denies it", "denied"))

    async def _delete(self, before: int) -> None:
        """Send DeleteRecords once; it may be refused."""
        log = self.topic.log(0)
        self.saw(DeleteAsked(self.loop.now_us, log, before))
        while (peer := await self.teller.leader(_TOPIC, 0)) is None:
            await self.teller.sleep_us(_AGAIN_US)
        asked = DeleteRecordsTopic(name=_TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=before)])
        response = await peer.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=500), timeout_ms=2000)
        self.teller.forget(_TOPIC, 0)
        if response is not None and not response.topics[0].partitions[0].error_code:
            start = response.topics[0].partitions[0].low_watermark
            self.saw(DeleteDone(self.loop.now_us, log, start))

    async def _prefer(self, *brokers: int) -> None:
        """Put the replicas into this order, and have the first one elected."""
        in_order = [self._broker(broker) for broker in brokers]
        partition = ReassignablePartition(partition_index=0, replicas=in_order)
        topic = ReassignableTopic(name=_TOPIC, partitions=[partition])
        reassign = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=2000)
        elect = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=_TOPIC, partitions=[0])])
        while self._state().leader != in_order[0]:
            await self.teller.ask(reassign)
            await self.teller.ask(elect)
            await self.teller.sleep_us(_AGAIN_US)
        await self._leader_is(brokers[0])

    async def _require(self, count: int) -> None:
        """Set min.insync.replicas of the topic."""
        edit = AlterableConfig(name="min.insync.replicas", config_operation=_SET, value=str(count))
        resource = AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=_TOPIC, configs=[edit])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        while (response := await self.teller.ask(request)) is None or response.responses[0].error_code:
            await self.teller.sleep_us(_AGAIN_US)

    async def _read(self, broker: int, offset: int) -> None:
        """Fetch from this broker as a consumer that knows no epoch, until it answers."""
        peer, log = self.teller.by_broker[self._broker(broker)], self.topic.log(0)
        want = {TopicPartition(_TOPIC, 0): WantedPartition(self.topic.topic_id, offset, -1, 1 << 20)}
        request = fetch_request(SessionRequest(0, -1, want, {}), max_wait_ms=0, max_bytes=1 << 20)
        while (response := await peer.ask(request)) is None or not response.responses:
            await self.teller.sleep_us(_AGAIN_US)
        part = response.responses[0].partitions[0]
        self.world.note(f"read: {ErrorCode(part.error_code).name}")
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.saw(OutOfRange(self.loop.now_us, "reader", log, offset))
        elif part.error_code == ErrorCode.NONE and part.records is not None and len(part.records):
            records, _ = parse(part.records, offset)
            self.saw(Polled(self.loop.now_us, "reader", log, offset, records))

    # --- brokers ---

    async def _kill(self, *brokers: int) -> None:
        for machine in self.machines(brokers):
            machine.vanish()

    async def _cut_power(self, *brokers: int) -> None:
        """Cut the power of all machines: all unsynced writes are lost."""
        for machine in self.machines(brokers):
            machine.vanish()
            machine.disk.lose_unsynced()
            self.world.power_lost(machine)

    async def _start(self, *brokers: int) -> None:
        for machine in self.machines(brokers):
            machine.start()
        await self.until(lambda: all(machine.serving is not None for machine in self.machines(brokers)))

    def _broker(self, number: int) -> BrokerId:
        """The id of a script's broker: scripts number brokers by the order of the replicas, so 1 leads at first."""
        return self._replicas[number - 1]

    def machines(self, brokers: tuple[int, ...]) -> list[Machine]:
        return [self.world.machines[self._broker(broker)] for broker in brokers]

    # --- the network ---

    async def _part(self, *brokers: int) -> None:
        """Cut these brokers off from all others in both directions, but not from clients."""
        for one, other in self._ways(brokers):
            self.world.network.block(one, other)

    async def _block(self, one: int, other: int) -> None:
        """Cut these two brokers off from each other."""
        hosts = [machine.host for machine in self.machines((one, other))]
        self.world.network.block(hosts[0], hosts[1])
        self.world.network.block(hosts[1], hosts[0])

    async def _join(self, *brokers: int) -> None:
        for one, other in self._ways(brokers):
            self.world.network.unblock(one, other)

    def _ways(self, brokers: tuple[int, ...]) -> list[tuple[str, str]]:
        hosts = [machine.host for machine in self.machines(brokers)]
        others = [machine.host for machine in self.world.machines.values() if machine.host not in hosts]
        return [way for host in hosts for other in others for way in ((host, other), (other, host))]

    async def _cut_store(self, broker: int) -> None:
        """Cut the broker off from the coordination store."""
        self.machines((broker,))[0].set_coordination(CALM, cut=True)

    async def _mend_store(self, broker: int) -> None:
        self.machines((broker,))[0].set_coordination(CALM, cut=False)

    # --- what the metadata says ---

    async def _are_in_sync(self, *brokers: int) -> None:
        await self.until(
            lambda: self._state() is not None and set(self._state().in_sync) == {self._broker(each) for each in brokers}
        )

    async def _leader_is(self, broker: int) -> None:
        await self.until(
            lambda: self._state() is not None and self._state().leader == self._broker(broker) and self._leads(broker)
        )
        self.teller.forget(_TOPIC, 0)

    def _leads(self, broker: int) -> bool:
        found = self.replica(broker)
        return found is not None and found.leader is not None

    def replica(self, broker: int) -> Partition | None:
        """The topic's replica on a broker that serves."""
        current = self.world.machines[self._broker(broker)].serving
        return None if current is None else current.node.replicas.by_id.get((TopicId(self.topic.topic_id), 0))

    def _state(self) -> Any:
        """The partition by the newest metadata that a broker knows."""
        known = [machine.serving.node.metadata for machine in self.world.machines.values() if machine.serving]
        return max(known, key=lambda each: each.version).partition(self.topic.topic_id, 0) if known else None
