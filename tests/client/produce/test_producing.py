"""The sender: batches to the leaders that there are, a story for each, and the ends of batches that took too long."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.sending import ONE, P0, P1, P2, World
from tests.client.stories import topic_led_by

from ottla.client.errors import (
    BrokerUnreachable,
    ConnectionLost,
    MetadataMissing,
    RequestTimedOut,
    TransactionAborted,
)
from ottla.client.model import ClientSettings, Produced, ProducerIdentity
from ottla.client.produce.producing import Errand, StoryEnded
from ottla.kernel.ids import TopicPartition


def test_a_batch_does_not_wait_for_the_leader_of_another_partition() -> None:
    world = World()
    world.metadata = topic_led_by(1, -1)
    led, leaderless = world.add(P0), world.add(P1)
    outcomes = world.send()
    assert outcomes[led] == Produced(0)
    assert isinstance(outcomes[leaderless], MetadataMissing)
    assert world.time == 0


def test_a_batch_does_not_wait_for_the_answer_of_the_leader_of_another_partition() -> None:
    world = World()
    world.metadata = topic_led_by(1, 2, 1)
    world.know()
    asked, next_asked, first, second = (world.add(partition) for partition in (P0, P0, P1, P1))
    not_answered, answered = world.sender.begin(flush=True)
    behind = world.add(P2)
    world.sender.settle([world.run(answered)])
    assert first.outcome == Produced(0)
    (answered,) = world.sender.begin(flush=True)
    world.sender.settle([world.run(answered)])
    assert second.outcome == Produced(0)
    assert world.sender.begin(flush=True) == []
    assert world.sender.next_begin_ms(flush=True) == float("inf"), "until a story ends"
    assert (asked.under_way, next_asked.under_way, behind.under_way) == (True, False, False)
    world.sender.settle([world.run(not_answered)])
    assert asked.outcome == Produced(0)
    assert world.send() == {next_asked: Produced(0), behind: Produced(0)}


def test_one_story_at_a_time_sends_to_a_leader() -> None:
    """So that what gathers meanwhile leaves in one request."""
    world = World()
    world.know()
    world.add(P0)
    (story,) = world.sender.begin(flush=True)
    later = world.add(P1)
    assert not world.sender.may_begin(P1)
    assert world.sender.begin(flush=True) == []
    world.sender.settle([world.run(story)])
    assert world.sender.may_begin(P1)
    assert world.send() == {later: Produced(0)}


def test_only_a_batch_that_failed_waits_for_metadata_that_its_failure_made_doubtful() -> None:
    world = World()
    world.metadata = topic_led_by(1, 2)
    world.know()
    world.fault[1] = ConnectionLost("gone")
    lost = world.add(P0)
    assert isinstance(world.send()[lost], ConnectionLost)
    world.time = lost.retry_at_ms
    other = world.add(P1)
    looking, sending = world.sender.begin(flush=True)
    world.sender.settle([world.run(sending)])
    assert other.outcome == Produced(0)
    world.metadata = topic_led_by(2, 2, epoch=1)
    world.sender.settle([world.run(looking)])
    assert world.send() == {lost: Produced(0)}
    assert [request for request in world.asked if request[0] == "Produce"] == [("Produce", port) for port in (1, 2, 2)]


def test_the_leader_of_a_batch_gives_its_producer_id() -> None:
    world = World(enable_idempotence=True)
    world.metadata = topic_led_by(1, 2)
    world.know()
    world.fault[1] = RequestTimedOut("it hangs")
    hung, other = world.add(P0), world.add(P1)
    outcomes = world.send()
    assert isinstance(outcomes[hung], RequestTimedOut) and outcomes[other] == Produced(0)
    assert not hung.was_sent
    assert world.asked == [("InitProducerId", 1), ("InitProducerId", 2), ("Produce", 2)]


def a_transaction(**settings: Any) -> World:
    """A world with an open transaction, whose coordinator is at port 3."""
    world = World(transactional_id="id", enable_idempotence=True, **settings)
    world.metadata = topic_led_by(1, 2)
    world.know()
    transactor = world.sender.require_transactor()
    transactor.state.initialized(ProducerIdentity(7, 0), version=1)
    transactor.begin()
    return world


def test_batches_of_partitions_in_the_transaction_do_not_wait_for_others_to_be_added() -> None:
    world = a_transaction()
    world.add(P0)
    world.send()
    assert world.asked == [("FindCoordinator", 2), ("AddPartitionsToTxn", 3), ("Produce", 1)]
    added, new = world.add(P0), world.add(P1)
    sending, adding = world.sender.begin(flush=True)
    world.sender.settle([world.run(sending)])
    assert added.outcome == Produced(0)
    world.sender.settle([world.run(adding)])
    assert world.send() == {new: Produced(0)}


def test_a_batch_whose_transaction_is_aborted_while_its_partition_is_added_is_not_sent() -> None:
    world = a_transaction()
    batch = world.add(P0)
    (adding,) = world.sender.begin(flush=True)
    world.sender.require_transactor().state.begin_abort()
    assert world.sender.drop_waiting(TransactionAborted("aborted")) == []
    adding.close()
    world.sender.settle([StoryEnded(Errand.PREPARE, prepared=[batch])])
    world.send()
    assert isinstance(batch.outcome, TransactionAborted)
    assert "Produce" not in [name for name, _ in world.asked]


def test_batches_whose_leaders_cannot_be_found_are_tried_again_later() -> None:
    world = World()
    batch = world.add(P0)
    world.metadata = BrokerUnreachable("nobody is there")
    assert isinstance(world.send()[batch], BrokerUnreachable)
    assert world.time == 0, "so that a batch fails when its time is over, not a minute later"
    assert batch.outcome is None
    world.time, world.metadata = 1_000, topic_led_by(1, 1)
    assert world.send() == {batch: Produced(0)}


def test_all_batches_that_wait_fail_once_their_time_is_over() -> None:
    """Each one was tried by itself once, so that flush and close took hours when the brokers had gone for good."""
    world = World(delivery_timeout_ms=1_000)
    first, second, third = (world.add(P0) for _ in range(3))
    other = world.add(P1)
    world.time = 999
    (sent,) = world.accumulator.ready(world.time, flush=True)[:1]
    assert sent is first
    other.under_way = False
    world.time = 1_000
    ended = StoryEnded(ONE, [(first, ConnectionLost("gone"))])
    assert world.sender.settle([ended]) == [first, second, third, other]
    assert all(isinstance(batch.outcome, RequestTimedOut) for batch in (first, second, third, other))
    assert world.accumulator.unfinished == []


def test_records_are_taken_for_a_topic_of_which_some_partitions_have_no_leader() -> None:
    world = World()
    world.metadata = topic_led_by(1, -1)
    assert world.sender.known_partitions("t") is None
    assert world.run(world.sender.find_partitions("t")) == ([0], 2)
    assert world.sender.known_partitions("t") == ([0], 2)
    assert world.time == 0


def test_a_partition_that_was_added_is_found_where_it_is_asked_for() -> None:
    world = World()
    world.run(world.sender.find_partitions("t"))
    assert world.sender.known_partitions("t", 1) == ([0, 1], 2)
    assert world.sender.known_partitions("t", 2) is None
    assert world.run(world.sender.find_partitions("t", 2)) == ([0, 1], 2)
    world.metadata = topic_led_by(1, 1, 1)
    assert world.run(world.sender.find_partitions("t", 2)) == ([0, 1, 2], 3)


def test_a_producer_looks_for_added_partitions_as_it_sends() -> None:
    world = World()
    world.know()
    world.metadata = topic_led_by(1, 1, 1)
    world.add(P0)
    world.send()
    assert world.sender.known_partitions("t") == ([0, 1], 2)
    world.time = ClientSettings().metadata_max_age_ms
    world.add(P1)
    world.send()
    assert world.sender.known_partitions("t") == ([0, 1, 2], 3)
    world.time *= 2
    world.metadata = BrokerUnreachable("nobody is there")
    late = world.add(TopicPartition("t", 2))
    assert world.send() == {late: Produced(0)}, "what is known will do meanwhile"


def test_a_batch_does_not_wait_for_the_look_at_added_partitions() -> None:
    world = World()
    world.know()
    world.time = ClientSettings().metadata_max_age_ms
    batch = world.add(P0)
    sending, looking = world.sender.begin(flush=True)
    world.sender.settle([world.run(sending)])
    assert batch.outcome == Produced(0)
    world.sender.settle([world.run(looking)])


def test_a_leader_that_owes_an_answer_is_the_last_to_be_asked_for_metadata() -> None:
    world = World()
    world.metadata = topic_led_by(1, 2)
    world.know()
    world.add(P0)
    (sending,) = world.sender.begin(flush=True)
    sending.send(None)
    orders = [[where.port for where in world.sender.plan.candidates()] for _ in range(2)]
    assert orders == [[2, 9, 1], [2, 9, 1]]
    with pytest.raises(StopIteration):
        sending.send([RequestTimedOut("it hangs")])
    assert [where.port for where in world.sender.plan.candidates()] == [2, 9, 1]
