"""kafka-reassign-partitions reads its files and arguments; tests/compat compares the rest with Kafka's own tool."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from ottla.cli.faults import Misuse
from ottla.cli.kafka.reassign_json import (
    PartitionMove,
    Replica,
    assignment_json,
    check_wanted,
    moves,
    propose,
    read_topics,
    read_wanted,
    throttled,
)
from ottla.client.admin.replicas import Reassignment
from ottla.kernel.ids import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def text(*partitions: dict[str, object]) -> str:
    return json.dumps({"version": 1, "partitions": list(partitions)})


def test_a_file_says_where_replicas_shall_be_and_in_which_directories():
    wanted = read_wanted(text({"topic": "t", "partition": 1, "replicas": [3, 1], "log_dirs": ["/a", "any"]}))
    assert wanted.partitions == [(P1, [3, 1])]
    assert wanted.directories == {Replica(3, "t", 1): "/a"}


def test_what_is_written_can_be_read_again():
    written = assignment_json({P1: [2], P0: [3, 1]}, {Replica(1, "t", 0): "/data"})
    assert written == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,1],"log_dirs":["any","/data"]},'
        '{"topic":"t","partition":1,"replicas":[2],"log_dirs":["any"]}]}'
    )
    again = read_wanted(written)
    assert dict(again.partitions) == {P0: [3, 1], P1: [2]}
    assert again.directories == {Replica(1, "t", 0): "/data"}


@pytest.mark.parametrize(
    ("partitions", "said"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([{"topic": "t", "partition": 0, "replicas": []}], "Partition replica list cannot be empty"),
        ([{"topic": "t", "partition": 0, "replicas": [1]}] * 2, "duplicate topic partitions: t-0"),
        ([{"topic": "t", "partition": 0, "replicas": [1, 2, 1]}], "t-0 contains multiple entries for 1"),
    ],
)
def test_nonsense_is_not_executed(partitions, said):
    with pytest.raises(Misuse, match=said):
        check_wanted(read_wanted(text(*partitions)))


@pytest.mark.parametrize("broken", ["{", "[]", '{"version":2}', '{"partitions":[{"topic":"t"}]}'])
def test_what_is_no_such_file_is_refused_with_a_sentence(broken):
    with pytest.raises(Misuse):
        read_wanted(broken)


def test_topics_to_move_are_read():
    assert read_topics('{"version":1,"topics":[{"topic":"a"},{"topic":"b"}]}') == ["a", "b"]


def test_what_moves_already_moves_from_where_it_was_before():
    current = {P0: Reassignment((3, 1, 2), (3,), (1,))}
    found = moves(current, {P0: [2, 4], P1: [2]}, {P0: [3, 1, 2], P1: [1]})
    assert found == {P0: PartitionMove({1, 2}, {4}), P1: PartitionMove({1}, {2})}
    assert throttled(found) == ({"t": "0:1,0:2,1:1"}, {"t": "0:4,1:2"})


@pytest.mark.parametrize("turn", range(20))
def test_a_proposal_spreads_leaders_and_replicas_evenly(turn):
    present = {TopicPartition("t", index): [1, 2, 3] for index in range(12)}
    proposed = propose(present, dict.fromkeys((1, 2, 3, 4)))
    assert set(proposed) == set(present)
    assert all(len(set(replicas)) == 3 for replicas in proposed.values())
    assert set(Counter(replicas[0] for replicas in proposed.values()).values()) == {3}
    assert set(Counter(one for replicas in proposed.values() for one in replicas).values()) == {9}


@pytest.mark.parametrize("turn", range(20))
def test_a_proposal_spreads_the_replicas_of_a_partition_over_racks(turn):
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    proposed = propose({TopicPartition("t", index): [1, 2, 3] for index in range(12)}, racks)
    assert all({racks[one] for one in replicas} == {"a", "b", "c"} for replicas in proposed.values())
    assert set(Counter(replicas[0] for replicas in proposed.values()).values()) == {2}


def test_one_broker_is_enough_for_one_replica_and_not_for_two():
    assert propose({P0: [3], P1: [3]}, {7: None}) == {P0: [7], P1: [7]}
    with pytest.raises(Misuse, match=r"replication factor of 2 .* only 1 broker"):
        propose({P0: [3, 4]}, {7: None})
