"""The client's view of the cluster, and when it asks again."""

from __future__ import annotations

from ottla.client.core.metadata import MetadataCache
from ottla.client.model import Broker
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID_A, ID_B = bytes(15) + b"a", bytes(15) + b"b"


def an_answer(*, leader: int = 1, epoch: int = 5, topic_id: bytes = ID_A, error: int = 0) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"h{node}", port=9092) for node in (1, 2)],
        cluster_id="c",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=topic_id,
                error_code=error,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1]
                    )
                ],
            )
        ],
    )


def a_cache(**answer: int) -> MetadataCache:
    cache = MetadataCache()
    cache.take(an_answer(**answer), 0, everything=True)  # type: ignore[arg-type]
    return cache


def test_a_leader_of_an_older_epoch_is_not_believed() -> None:
    cache = a_cache(leader=1, epoch=5)
    cache.take(an_answer(leader=2, epoch=4), 1, everything=False)
    assert cache.leader("t", 0) == Broker(1, "h1", 9092)
    cache.take(an_answer(leader=2, epoch=6), 2, everything=False)
    assert cache.leader("t", 0) == Broker(2, "h2", 9092)


def test_a_recreated_topic_starts_its_epochs_anew() -> None:
    cache = a_cache(leader=1, epoch=5)
    cache.take(an_answer(leader=2, epoch=0, topic_id=ID_B), 1, everything=False)
    assert cache.leader("t", 0) == Broker(2, "h2", 9092)
    assert cache.topic_id("t") == ID_B
    assert cache.names[ID_B] == "t"


def test_a_hint_moves_the_leader_without_asking() -> None:
    cache = a_cache(leader=1, epoch=5)
    cache.hint(TopicPartition("t", 0), 3, 6, [Broker(3, "h3", 9092)])
    assert cache.leader("t", 0) == Broker(3, "h3", 9092)
    assert cache.leader_epoch("t", 0) == 6
    assert cache.missing(["t"]) == []


def test_a_hint_that_is_old_or_names_a_stranger_makes_the_topic_doubtful() -> None:
    for leader, epoch in ((2, 5), (9, 6)):
        cache = a_cache(leader=1, epoch=5)
        cache.hint(TopicPartition("t", 0), leader, epoch, [])
        assert cache.leader("t", 0) == Broker(1, "h1", 9092)
        assert cache.missing(["t"]) == ["t"]
        cache.take(an_answer(leader=1, epoch=5), 1, everything=False)
        assert cache.missing(["t"]) == []


def test_topics_without_leader_or_with_error_are_missing() -> None:
    assert a_cache(leader=-1).missing(["t", "u"]) == ["t", "u"]
    assert a_cache(error=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)).missing(["t"]) == ["t"]
