"""Requests that wait in a transaction coordinator for the end of the transaction before theirs."""

from __future__ import annotations

from transactional import OK, Scene, ready

from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC, add_partitions
from ottla.kernel.ids import TopicPartition
from ottla.kernel.story import run_story
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

SOME_PARTITION = frozenset({TopicPartition(TRANSACTION_TOPIC, 0)})
PATIENCE_MS = 20


def test_a_request_does_not_wait_for_a_transaction_that_ended_while_its_answer_was_held():
    scene = Scene(1)
    producer = ready(scene, version=1)
    assert producer.send(0, "first") == OK
    scene.ask(1, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
    coordinator = scene.node(1).transactions
    ended = coordinator.ask(
        "tx",
        lambda shard, ticket, now: shard.end(
            "tx", producer.producer_id, producer.epoch, committed=True, version=0, ticket=ticket, now=now
        ),
    )
    added = run_story(
        add_partitions(
            coordinator,
            "tx",
            producer.producer_id,
            producer.epoch,
            SOME_PARTITION,
            bumps=False,
            patience_ms=PATIENCE_MS,
        )
    )
    assert not ended.full and not added.full, "both answers are held until it is committed how the transaction ends"
    assert scene.end_of(added) == OK, "its only partition is gone: it was complete before the answers left"
    assert scene.end_of(ended).error == OK
