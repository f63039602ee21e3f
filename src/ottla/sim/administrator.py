"""The administrator of the simulated workload: makes topics, deletes them, makes them anew, deletes records, edits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.kernel.errors import ErrorCode
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.sim.checkers.history import DeleteAsked, DeleteDone, LogKey, TopicDeleted
from ottla.sim.peer import Peers
from ottla.sim.plan import TopicPlan
from ottla.sim.readers import offset_of
from ottla.sim.topics import create_topic

if TYPE_CHECKING:
    from ottla.sim.setting import Administered, KnownTopic

_TOPIC, _BROKER = 2, 4
_ALL_BROKERS = ""
_SET, _DELETE = 0, 1
_EDITED = (
    ("internal.segment.bytes", ("1300", "3000", "9000")),
    ("index.interval.bytes", ("1", "600")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
    ("compression.type", ("producer", "gzip", "lz4")),
)
_LATEST = -1
_AGAIN_US = 30_000
_PAUSE_US = (200_000, 1_500_000)
_SHORT_PAUSE_US = (20_000, 400_000)
_PREFERRED = 0
_BACK_SHARE = 0.7
_OTHERS_MOVED_SHARE = 0.4
REQUIRED_EDITED = "min.insync.replicas edited"
DIRECTORY_ALTERED = "log directory altered"
ACTS = (
    "topic deleted",
    "records deleted",
    "preferred leader elected",
    "replicas reassigned",
    REQUIRED_EDITED,
    DIRECTORY_ALTERED,
)
"""An administrator's acts in the middle of faults; reassigning needs more brokers than replicas."""


class Administrator:
    """One client with rights to everything."""

    def __init__(self, workload: Administered) -> None:
        self.workload = workload
        self.random = Random(f"administrator-{workload.plan.seed}")
        self.peer = workload.peer("administrator")
        self.done = dict.fromkeys(ACTS, 0)
        """The number of successful acts, by kind."""
        self._idle = True
        self._deleted: dict[bytes, None] = {}
        self._made_anew: set[str] = set()
        """Names of topics that were deleted once: a broker that lags behind may still answer for the earlier one."""

    async def run(self) -> None:
        for plan in self.workload.plan.topics:
            await self._create(plan)
        while not self.workload.ending:
            await self.peer.sleep_us(self.random.randint(*self._pause_us()))
            if self.workload.ending:
                return
            self._idle = False
            await self.random.choice(self._actions())()
            self._idle = True

    def _actions(self) -> list[Callable[[], Coroutine[Any, None, None]]]:
        actions = [self._recreate, self._delete_records, self._delete_records, self._configure]
        plan = self.workload.plan
        if plan.brokers > plan.replication:  # there are brokers to move replicas to
            actions += [self._reassign, self._reassign]
        if plan.more_directories:
            actions += [self._alter_directory] * 2 * len(actions)
        if plan.edits_required:
            actions += [self._require] * 3
        if plan.moves_leaders:
            actions += [self._move_leaders] * 2 * len(actions)
        return actions

    def _topic_to_move(self) -> KnownTopic | None:
        """A topic whose replicas or leaders to move; in worlds with transactions often one that they depend on."""
        transactions = self.workload.transactions
        topics = () if transactions is None else transactions.topics()
        if transactions is None or not topics or transactions.random.random() < _OTHERS_MOVED_SHARE:
            return self.workload.some_topic(self.random)
        return transactions.random.choice(topics)

    def _pause_us(self) -> tuple[int, int]:
        plan = self.workload.plan
        return _SHORT_PAUSE_US if plan.moves_leaders or plan.more_directories else _PAUSE_US

    async def settled(self, peer: Peers) -> None:
        """Wait until no act is half done."""
        while not self._idle:
            await peer.sleep_us(_AGAIN_US)

    async def _create(self, plan: TopicPlan) -> None:

        while True:
            replication = self.workload.plan.replication
            topic_id = await create_topic(self.peer, plan, replication) or await self._find(plan)
            if topic_id is not None:
                self.workload.learn(plan, topic_id)
                return
            await self.peer.sleep_us(_AGAIN_US)

    async def _find(self, plan: TopicPlan) -> bytes | None:
        asked = [MetadataRequestTopic(name=plan.name)]
        response = await self.peer.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        if response is None or response.topics[0].error_code:
            return None
        topic_id = bytes(response.topics[0].topic_id)
        return None if topic_id in self._deleted else topic_id  # from a broker that does not know of the deletion

    async def _recreate(self) -> None:
        topic = next((topic for topic in self.workload.topics() if not topic.plan.stable), None)
        if topic is None:
            return
        self.workload.saw(TopicDeleted(self.workload.loop.now_us, topic.topic_id.hex()))
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic.topic_id)], timeout_ms=2000)
        while True:
            response = await self.peer.ask(request)
            if response is not None and response.responses[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_ID):
                break
            await self.peer.sleep_us(_AGAIN_US)
        self._deleted[topic.topic_id] = None
        self._made_anew.add(topic.plan.name)
        self.done["topic deleted"] += 1
        self.workload.forget(topic.plan.name)
        await self.peer.sleep_us(self.random.randint(0, 300_000))
        await self._create(topic.plan)

    async def _delete_records(self) -> None:
        topic = self.workload.some_topic(self.random)
        if topic is None:
            return
        partition = self.random.randrange(topic.plan.partitions)
        end = await offset_of(self.peer, topic, partition, _LATEST)
        if not end:
            return
        log = LogKey(topic.topic_id.hex(), partition)
        before = self.random.randint(0, self.workload.may_delete_to(log, end))
        self.workload.saw(DeleteAsked(self.workload.loop.now_us, log, before))
        asked = DeleteRecordsTopic(
            name=topic.plan.name, partitions=[DeleteRecordsPartition(partition_index=partition, offset=before)]
        )
        peer = await self.peer.leader(topic.plan.name, partition)
        if peer is None:
            return
        response = await peer.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=2000))
        if response is not None and not response.topics[0].partitions[0].error_code:
            start = response.topics[0].partitions[0].low_watermark
            if topic.plan.name not in self._made_anew:
                self.workload.saw(DeleteDone(self.workload.loop.now_us, log, start))
            self.done["records deleted"] += 1

    async def _reassign(self) -> None:
        topic = self._topic_to_move()
        if topic is None:
            return
        plan = self.workload.plan
        replicas = self.random.sample(range(1, plan.brokers + 1), plan.replication)
        partition = ReassignablePartition(
            partition_index=self.random.randrange(topic.plan.partitions), replicas=replicas
        )
        asked = ReassignableTopic(name=topic.plan.name, partitions=[partition])
        response = await self.peer.ask(AlterPartitionReassignmentsRequest(topics=[asked], timeout_ms=2000))
        if response is not None and response.responses and not response.responses[0].partitions[0].error_code:
            self.done["replicas reassigned"] += 1

    async def _alter_directory(self) -> None:
        """Move one broker's replica of a partition to one of its log directories, perhaps the one that it is in."""
        topic = self._topic_to_move()
        if topic is None:
            return
        broker = self.random.choice(sorted(self.peer.by_broker))
        path = self.random.choice(self.workload.directories_of(broker))
        moved = AlterReplicaLogDirTopic(name=topic.plan.name, partitions=[self.random.randrange(topic.plan.partitions)])
        asked = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[moved])])
        response = await self.peer.by_broker[broker].ask(asked)
        if response is not None and not response.results[0].partitions[0].error_code:
            self.done[DIRECTORY_ALTERED] += 1

    async def _move_leaders(self) -> None:
        """Move one partition's leader to another replica, and perhaps back before every broker has learned of it."""
        topic = self._topic_to_move()
        if topic is None:
            return
        name, index = topic.plan.name, self.random.randrange(topic.plan.partitions)
        about = [MetadataRequestTopic(name=name)]
        response = await self.peer.ask(MetadataRequest(topics=about, allow_auto_topic_creation=False))
        found = [] if response is None else [each for each in response.topics[0].partitions if each.leader_id >= 0]
        now = next((each for each in found if each.partition_index == index), None)
        if now is None or len(now.replica_nodes) == 1:
            return
        another = self.random.choice([broker for broker in now.replica_nodes if broker != now.leader_id])
        await self.prefer(name, index, another, now.replica_nodes)
        if self.random.random() < _BACK_SHARE:
            await self.peer.sleep_us(self.random.randint(0, _SHORT_PAUSE_US[1]))
            await self.prefer(name, index, now.leader_id, now.replica_nodes)

    async def prefer(self, name: str, index: int, leader: int, replicas: list[int]) -> None:
        """Make `leader` the first replica, then ask for a preferred election; the former leader stays in sync."""
        in_order = [leader, *(broker for broker in replicas if broker != leader)]
        partition = ReassignablePartition(partition_index=index, replicas=in_order)
        asked = ReassignableTopic(name=name, partitions=[partition])
        await self.peer.ask(AlterPartitionReassignmentsRequest(topics=[asked], timeout_ms=2000))
        places = [TopicPartitions(topic=name, partitions=[index])]
        elected = await self.peer.ask(ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=places))
        results = [] if elected is None else elected.replica_election_results
        if results and not results[0].partition_result[0].error_code:
            self.done["preferred leader elected"] += 1

    async def _configure(self) -> None:
        topic = self.workload.some_topic(self.random)
        if topic is None:
            return
        name, values = self.random.choice(_EDITED)
        edit = AlterableConfig(name=name, config_operation=_SET, value=self.random.choice(values))
        await self._edit(_TOPIC, topic.plan.name, edit)

    async def _require(self) -> None:
        """Set min.insync.replicas to 1..replication, or delete it: on one topic or as the default of all brokers."""
        topic = self.workload.some_topic(self.random)
        if topic is None:
            return
        wanted = self.random.choice((None, *range(1, self.workload.plan.replication + 1)))
        edit = AlterableConfig(
            name="min.insync.replicas",
            config_operation=_DELETE if wanted is None else _SET,
            value=None if wanted is None else str(wanted),
        )
        kind, name = self.random.choice(((_TOPIC, topic.plan.name), (_BROKER, _ALL_BROKERS)))
        if self.workload.a_disk_is_lost():
            return  # an eligible replica may lose that status (KIP-966), and it would be the last one
        self.workload.keep_disks(True)
        error = await self._edit(kind, name, edit)
        self.workload.keep_disks(error is None)
        self.done[REQUIRED_EDITED] += error == 0

    async def _edit(self, kind: int, name: str, edit: AlterableConfig) -> int | None:
        """The error code; None without an answer: the edit may still be applied."""
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[edit])
        response = await self.peer.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        return None if response is None else response.responses[0].error_code
