"""Transactional producers of both versions in a simulated cluster, and readers of their records."""

from __future__ import annotations

from typing import Any

from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.messages.end_txn import EndTxnRequest
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.records.batch import iterate_batches
from ottla.records.builder import build_batch
from ottla.records.control import Marker, read_marker
from ottla.records.reader import Record, read_records

OK = ErrorCode.NONE
_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_PAUSE_MS = 20
_TRIES = 500
_BY_NAME = 12
COMMITTED = 1


class Scene(SimCluster):
    """A topic `t` of three partitions on every broker, and both internal topics."""

    def __init__(self, brokers: int = 3, **options: str) -> None:
        options.setdefault("transaction_state_log_num_partitions", "1")
        options.setdefault("offsets_topic_num_partitions", "1")
        super().__init__(brokers, **options)
        self.create_topic(partitions=3, replicas=brokers)

    def living(self) -> int:
        return next(number for number, machine in self.machines.items() if machine.serving is not None)

    def leader(self, partition: TopicPartition) -> int:
        """The partition's leader, once a running broker leads it."""
        found = [-1]

        def known() -> bool:
            topic = self.node(self.living()).metadata.topic(partition.topic)
            found[0] = -1 if topic is None else topic.partitions[partition.partition].leader
            machine = self.machines.get(found[0])
            return machine is not None and machine.serving is not None

        self.until(known, within_ms=60_000)
        return found[0]

    def coordinator(self, key: str, key_type: int) -> int:
        def asked() -> Any:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            return self.ask(self.living(), request)

        for _ in range(_TRIES):
            answer = asked()
            if answer is not None and answer.coordinators[0].error_code == OK:
                node_id = int(answer.coordinators[0].node_id)
                if self.machines[node_id].serving is not None:
                    return node_id
            self.loop.run_for(_PAUSE_MS)
        raise AssertionError("no coordinator")

    def read(self, partition: int = 0, *, committed: bool = True, topic: str = "t", most: int = _BY_NAME) -> list[str]:
        """All values as a client returns them; with `committed`, without aborted ones, by the list in the answer."""
        values: list[str] = []
        offset = 0
        while True:
            data = self._fetch(topic, partition, offset, committed=committed, most=most)
            if data is None:
                self.loop.run_for(_PAUSE_MS)
                continue
            coming = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
            hidden: set[int] = set()
            before = offset
            for batch in iterate_batches(data.records or b""):
                offset = batch.next_offset
                while coming and coming[0][0] <= batch.last_offset:
                    hidden.add(coming.pop(0)[1])
                if batch.is_control:
                    marker = read_marker(batch)
                    if marker is not None and marker.marker is Marker.ABORT:
                        hidden.discard(batch.producer_id)
                elif not (committed and batch.is_transactional and batch.producer_id in hidden):
                    values += [(record.value or b"").decode() for record in read_records(batch)]
            if offset == before:
                return values

    def _fetch(self, topic: str, partition: int, offset: int, *, committed: bool, most: int) -> Any:
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            isolation_level=COMMITTED if committed else 0,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        answer = self.ask(self.leader(TopicPartition(topic, partition)), request, most=most)
        if answer is None or answer.responses[0].partitions[0].error_code:
            return None
        return answer.responses[0].partitions[0]

    def end_offset(self, partition: int = 0, *, committed: bool) -> int:
        """The end by ListOffsets: the last stable offset, or the high watermark."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
        request = ListOffsetsRequest(
            isolation_level=COMMITTED if committed else 0, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
        )
        for _ in range(_TRIES):
            answer = self.ask(self.leader(TopicPartition("t", partition)), request)
            if answer is not None and answer.topics[0].partitions[0].error_code == OK:
                return int(answer.topics[0].partitions[0].offset)
            self.loop.run_for(_PAUSE_MS)
        raise AssertionError("no offset")

    def committed_offset(self, group: str = "g", *, stable: bool = True) -> tuple[int, int]:
        """(error, offset) of the group in partition 0."""
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable
        )
        for _ in range(_TRIES):
            answer = self.ask(self.coordinator(group, 0), request, most=9)
            if answer is not None and answer.groups[0].error_code not in _AGAIN:
                found = answer.groups[0].topics[0].partitions[0]
                return int(found.error_code), int(found.committed_offset)
            self.loop.run_for(_PAUSE_MS)
        raise AssertionError("no coordinator of the group")


class Producer:
    """With version 1 it adds partitions itself; with version 2 brokers add them, and each end raises its epoch."""

    def __init__(self, scene: Scene, transactional_id: str, *, version: int, timeout_ms: int = 60_000) -> None:
        self.scene = scene
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}

    @property
    def producer(self) -> dict[str, int]:
        return {"producer_id": self.producer_id, "producer_epoch": self.epoch}

    def init(self) -> ErrorCode:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        answer = self._coordinated(request)
        if answer.error_code == OK:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return ErrorCode(answer.error_code)

    def add(self, *partitions: int, again: bool = True) -> ErrorCode:
        """Add partitions to the transaction, as a client of version 1 does."""
        topics = [AddPartitionsToTxnTopic(name="t", partitions=list(partitions))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        answer = self._coordinated(
            request,
            most=3,
            again=again,
            error_of=lambda said: said.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        return ErrorCode(results[0].partition_error_code)

    def add_as_brokers_do(self, *partitions: int, most: int) -> ErrorCode:
        """Add partitions in a request for several transactions, as clients do that use the highest version."""
        topics = [AddPartitionsToTxnTopic(name="t", partitions=list(partitions))]
        mine = AddPartitionsToTxnTransaction(transactional_id=self.transactional_id, topics=topics, **self.producer)
        answer = self._coordinated(
            AddPartitionsToTxnRequest(transactions=[mine]),
            most=most,
            error_of=lambda said: said.error_code or error_of_first(said),
        )
        return ErrorCode(answer.error_code or error_of_first(answer))

    def send(self, partition: int, *values: str) -> ErrorCode:
        """Send records in the transaction, with all requests that this needs."""
        if self.version == 1:
            error = self.add(partition)
            if error:
                return error
        return self.produce(partition, *values)

    def produce(self, partition: int, *values: str, most: int | None = None, again: bool = True) -> ErrorCode:
        """Send only the Produce request."""
        sequence = self.sequences.get(partition, 0)
        records = [Record(0, self.scene.loop.wall_ms(), None, value.encode()) for value in values]
        batch = build_batch(records, base_sequence=sequence, is_transactional=True, **self.producer)
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=5_000, topic_data=[data])
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        for _ in range(_TRIES):
            leader = self.scene.leader(TopicPartition("t", partition))
            answer = self.scene.ask(leader, request, most=most or (11 if self.version == 1 else 12))
            if answer is not None:
                error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
                if not again or error not in _AGAIN | {ErrorCode.REQUEST_TIMED_OUT}:
                    break
            self.scene.loop.run_for(_PAUSE_MS)
        if error == OK:
            self.sequences[partition] = sequence + len(values)
        return error

    def send_offset(self, offset: int, *, group: str = "g", **member: Any) -> ErrorCode:
        """Commit the group's offset in partition 0 within the transaction."""
        if self.version == 1:
            added = AddOffsetsToTxnRequest(transactional_id=self.transactional_id, group_id=group, **self.producer)
            error = ErrorCode(self._coordinated(added).error_code)
            if error:
                return error
        return self.commit_offset(offset, group=group, **member)

    def commit_offset(self, offset: int, *, group: str = "g", **member: Any) -> ErrorCode:
        """Send only the TxnOffsetCommit request."""
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[place])],
            **member,
            **self.producer,
        )
        for _ in range(_TRIES):
            answer = self.scene.ask(self.scene.coordinator(group, 0), request, most=3 if self.version == 1 else 5)
            if answer is not None:
                error = ErrorCode(answer.topics[0].partitions[0].error_code)
                if error not in _AGAIN:
                    return error
            self.scene.loop.run_for(_PAUSE_MS)
        raise AssertionError("the offset was never taken")

    def end(self, *, commit: bool) -> ErrorCode:
        request = EndTxnRequest(transactional_id=self.transactional_id, committed=commit, **self.producer)
        answer = self._coordinated(request, most=4 if self.version == 1 else 5)
        if answer.error_code == OK and self.version == 2:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return ErrorCode(answer.error_code)

    def _coordinated(
        self, request: Any, *, most: int = 5, again: bool = True, error_of: Any = lambda said: said.error_code
    ) -> Any:
        """Ask the present coordinator, once or until its answer is final."""
        for _ in range(_TRIES):
            broker = self.scene.coordinator(self.transactional_id, 1)
            answer = self.scene.ask(broker, request, most=most)
            if answer is not None and (error_of(answer) not in _AGAIN or not again):
                return answer
            self.scene.loop.run_for(_PAUSE_MS)
        raise AssertionError(f"no answer to {request}")


def error_of_first(answer: AddPartitionsToTxnResponse) -> int:
    """The error of the first partition of the first transaction."""
    return answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code


def ready(scene: Scene, transactional_id: str = "tx", *, version: int, **options: Any) -> Producer:
    producer = Producer(scene, transactional_id, version=version, **options)
    assert producer.init() == OK
    return producer
