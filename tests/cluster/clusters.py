"""States of a cluster, built by deciding and applying as brokers do."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cluster.broker_commands import NewCluster, RegisterBroker
from ottla.cluster.commands import Command, CommandWriter, CreateTopic
from ottla.cluster.decide import decide
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import BrokerEpoch, BrokerId, TopicId
from ottla.metadata.broker_state import Listener
from ottla.metadata.entries import Body, decode_entry, encode_entry
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Metadata


class Decisions:
    """A state that changes by commands only; every entry is encoded and decoded."""

    def __init__(self) -> None:
        self.state = Metadata()
        self.entries: list[Body] = []

    def do(self, command: Command, by: int | None = None) -> list[Body]:
        """Decide, append and apply; the command must be allowed."""
        decided = self.ask(command, by)
        assert not isinstance(decided, ApiError), decided
        for body in decided:
            read = decode_entry(encode_entry(body, broker_epoch=1, sequence=len(self.entries))).body
            assert read == body
            self.entries.append(body)
            self.state.apply(self.state.version + 1, read)
        return decided

    def ask(self, command: Command, by: int | None = None) -> list[Body] | ApiError:
        """The entries that a command would append, or its error."""
        return decide(command, self.state, self.writer(by))

    def refused(self, command: Command, by: int | None = None) -> ApiError:
        decided = self.ask(command, by)
        assert isinstance(decided, ApiError), decided
        return decided

    def writer(self, by: int | None) -> CommandWriter:
        broker_id = BrokerId(by) if by is not None else self.state.caretaker()
        broker = self.state.brokers.get(broker_id)
        return CommandWriter(broker_id, broker.epoch if broker is not None else BrokerEpoch(-1))

    def partition(self, name: str, partition: int = 0) -> PartitionState:
        topic = self.state.topic(name)
        assert topic is not None
        return topic.partitions[partition]

    def epoch(self, broker_id: int) -> BrokerEpoch:
        return self.state.brokers[BrokerId(broker_id)].epoch


def register(
    number: int,
    *,
    host: str = "",
    rack: str | None = None,
    damaged: Sequence[tuple[bytes, tuple[int, ...]]] = (),
    short: Sequence[tuple[bytes, tuple[int, ...]]] = (),
    **options: str,
) -> RegisterBroker:
    return RegisterBroker(
        BrokerId(number),
        bytes([number]) * 16,
        host or f"host{number}",
        rack,
        (Listener("PLAINTEXT", f"host{number}", 9092, 0),),
        NewCluster("a-cluster", b"a secret"),
        tuple((TopicId(topic_id), partitions) for topic_id, partitions in damaged),
        tuple((TopicId(topic_id), partitions) for topic_id, partitions in short),
        tuple((key.replace("_", "."), value) for key, value in options.items()),
    )


def create(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreateTopic:
    """A command that creates a topic; options are named with underscores."""
    return CreateTopic(
        name,
        topic_id(name),
        partitions,
        replicas,
        configs=tuple((key.replace("_", "."), value) for key, value in configs.items()),
    )


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b".")[-16:])


def a_cluster(*numbers: int) -> Decisions:
    decisions = Decisions()
    for number in numbers:
        decisions.do(register(number))
    return decisions


def led_by(cluster: Decisions, broker: int) -> int:
    """The index of the first partition of "t" that a broker leads."""
    topic = cluster.state.topic("t")
    assert topic is not None
    return next(one.partition for one in topic.partitions if one.leader == broker)
