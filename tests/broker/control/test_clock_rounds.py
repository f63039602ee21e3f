"""No broker deletes anything on the word of its own clock: not at its start, not later, neither as leader nor not."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from sim_cluster import SimCluster

from ottla.config.describe import BROKER_CLOCK
from ottla.kernel import trusted_time
from ottla.kernel.ids import TopicPartition
from ottla.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.reader import Record

DAY_MS = 86_400_000
JUMPS_MS = [-DAY_MS, DAY_MS, 30 * DAY_MS, 365 * DAY_MS]
T_0 = TopicPartition("t", 0)
BY_NAME = 9
"""A version of Produce that names topics."""


def a_cluster(brokers: int, **configs: str) -> SimCluster:
    """Brokers with a topic of one partition that all of them hold, with ten records; retention is looked at often."""
    cluster = SimCluster(brokers, log_retention_check_interval_ms="1000")
    cluster.create_topic("t", replicas=brokers, **configs)
    cluster.until(lambda: all(T_0 in cluster.node(each).replicas.by_name for each in cluster.machines))
    produce(cluster)
    cluster.loop.run_for(70_000)
    assert starts(cluster) == dict.fromkeys(cluster.machines, 0)
    return cluster


def produce(cluster: SimCluster, timestamp_ms: int | None = None) -> None:
    now_ms = cluster.loop.wall_ms() if timestamp_ms is None else timestamp_ms
    records = [Record(at, now_ms, None, b"%d" % at) for at in range(10)]
    assert append(cluster, build_batch(records)).error_code == 0


def append(cluster: SimCluster, batch: bytes) -> Any:
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(acks=-1, timeout_ms=3000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return cluster.ask(leader(cluster), request, most=BY_NAME).responses[0].partition_responses[0]


def leader(cluster: SimCluster) -> int:
    found: list[int] = []

    def is_led() -> bool:
        found[:] = [
            each
            for each, machine in cluster.machines.items()
            if machine.serving is not None and (part := cluster.node(each).replicas.by_name.get(T_0)) is not None
            and part.leader is not None
        ]  # fmt: skip
        return bool(found)

    cluster.until(is_led, within_ms=60_000)
    return found[0]


def starts(cluster: SimCluster) -> dict[int, int]:
    """By broker, the first offset of its replica."""
    return {
        each: cluster.node(each).replicas.by_name[T_0].log.log_start_offset
        for each, machine in cluster.machines.items()
        if machine.serving is not None
    }


def restarted(cluster: SimCluster, *numbers: int, off_ms: int) -> None:
    for each in numbers:
        cluster.kill(each)
    cluster.loop.run_for(5_000)
    for each in numbers:
        cluster.machines[each].wall_off_ms = off_ms
        cluster.start(each)


def clock(cluster: SimCluster, number: int) -> dict[str, Any]:
    wanted = DescribeConfigsResource(resource_type=4, resource_name=str(number), configuration_keys=[BROKER_CLOCK])
    answer = cluster.ask(number, DescribeConfigsRequest(resources=[wanted]))
    (found,) = [one.value for one in answer.results[0].configs if one.name == BROKER_CLOCK]
    said: dict[str, Any] = json.loads(found)
    return said


def accept(cluster: SimCluster, time_ms: int) -> None:
    change = AlterableConfig(name="ottla.clock.accepted.ms", config_operation=0, value=str(time_ms))
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    answer = cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0, answer


@pytest.mark.parametrize("off_ms", JUMPS_MS)
@pytest.mark.parametrize("brokers", [1, 3])
def test_brokers_that_start_with_a_clock_that_is_off_delete_nothing_and_say_so(
    brokers: int, off_ms: int, caplog: pytest.LogCaptureFixture
):
    cluster = a_cluster(brokers)
    caplog.clear()
    restarted(cluster, *cluster.machines, off_ms=off_ms)
    cluster.loop.run_for(90_000)
    assert leader(cluster) and starts(cluster) == dict.fromkeys(cluster.machines, 0)
    said = [one for one in caplog.records if one.name == "ottla.clock" and one.levelno == logging.WARNING]
    assert len(said) == brokers, "once for each broker"
    assert all("ottla clock accept" in one.getMessage() for one in said)
    told = clock(cluster, 1)
    assert abs(told["ahead_ms"] - told["behind_ms"] - off_ms) < 600_000


@pytest.mark.parametrize("off_ms", JUMPS_MS)
def test_a_clock_that_is_set_while_the_broker_runs_deletes_nothing(off_ms: int):
    cluster = a_cluster(1)
    cluster.machines[1].wall_off_ms = off_ms
    cluster.loop.run_for(90_000)
    assert starts(cluster) == {1: 0}


def test_a_clock_that_is_set_before_the_first_look_deletes_nothing():
    cluster = a_cluster(1)
    cluster.kill(1)
    cluster.start(1)
    cluster.machines[1].wall_off_ms = 30 * DAY_MS
    cluster.loop.run_for(90_000)
    assert starts(cluster) == {1: 0}


@pytest.mark.parametrize("off_ms", JUMPS_MS)
def test_a_follower_whose_clock_is_off_keeps_its_copy_and_leads_it_when_the_others_are_gone(off_ms: int):
    cluster = a_cluster(3)
    behind = next(each for each in cluster.machines if each != leader(cluster))
    restarted(cluster, behind, off_ms=off_ms)
    cluster.loop.run_for(60_000)
    for each in cluster.others(behind):
        cluster.kill(each)
    assert leader(cluster) == behind
    cluster.loop.run_for(90_000)
    assert starts(cluster) == {behind: 0}


def test_a_new_replica_on_a_machine_whose_clock_is_off_asks_the_others_what_time_it_is():
    cluster = a_cluster(3)
    lost = next(each for each in cluster.machines if each != leader(cluster))
    cluster.kill(lost)
    cluster.machines[lost].lose_disk()
    restarted(cluster, lost, off_ms=365 * DAY_MS)
    cluster.until(lambda: len(cluster.node(1).metadata.topic("t").partitions[0].in_sync) == 3, within_ms=60_000)
    for each in cluster.others(lost):
        cluster.kill(each)
    assert leader(cluster) == lost
    cluster.loop.run_for(90_000)
    assert starts(cluster) == {lost: 0}


def test_a_new_broker_that_was_not_told_the_time_before_a_restart_still_asks():
    cluster = a_cluster(3)
    lost = next(each for each in cluster.machines if each != leader(cluster))
    for each in cluster.machines:
        cluster.kill(each)
    cluster.machines[lost].lose_disk()
    cluster.machines[lost].wall_off_ms = 365 * DAY_MS
    cluster.start(lost)
    cluster.loop.run_for(60_000)
    assert not clock(cluster, lost)["settled"]
    cluster.kill(lost)
    cluster.start(lost)
    assert not clock(cluster, lost)["settled"]
    for each in cluster.others(lost):
        cluster.start(each)
    cluster.loop.run_for(60_000)
    told = clock(cluster, lost)
    assert told["settled"] and abs(told["ahead_ms"] - 365 * DAY_MS) < 600_000


def test_followers_delete_what_their_leader_has_deleted_by_age():
    cluster = a_cluster(3, retention_ms="300000")
    produce(cluster, timestamp_ms=0)
    cluster.loop.run_for(150_000)
    assert starts(cluster) == dict.fromkeys(cluster.machines, 0), "the segment holds younger records"
    cluster.loop.run_for(150_000)
    assert starts(cluster) == dict.fromkeys(cluster.machines, 20)
    assert all(len(cluster.node(each).replicas.by_name[T_0].log.segments) == 1 for each in cluster.machines)


def test_what_is_old_by_the_monotonic_clock_goes_while_the_wall_clock_is_in_doubt():
    cluster = a_cluster(1, retention_ms="600000")
    restarted(cluster, 1, off_ms=30 * DAY_MS)
    cluster.loop.run_for(450_000)
    assert starts(cluster) == {1: 0}
    cluster.loop.run_for(150_000)
    assert starts(cluster) == {1: 10}


def test_an_administrator_who_accepts_the_clock_ends_the_doubt_of_all_brokers():
    cluster = a_cluster(3)
    restarted(cluster, *cluster.machines, off_ms=30 * DAY_MS)
    cluster.loop.run_for(60_000)
    accept(cluster, cluster.loop.wall_ms() + 30 * DAY_MS)
    cluster.loop.run_for(30_000)
    assert starts(cluster) == dict.fromkeys(cluster.machines, 10)
    assert [clock(cluster, each)["ahead_ms"] for each in cluster.machines] == [0, 0, 0]


def test_a_word_that_was_taken_once_does_not_count_for_a_later_jump():
    cluster = a_cluster(1)
    restarted(cluster, 1, off_ms=2 * DAY_MS)
    accept(cluster, cluster.loop.wall_ms() + 2 * DAY_MS)
    cluster.loop.run_for(30_000)
    restarted(cluster, 1, off_ms=32 * DAY_MS)
    cluster.loop.run_for(30_000)
    assert abs(clock(cluster, 1)["ahead_ms"] - 30 * DAY_MS) < 600_000 and starts(cluster) == {1: 0}


def test_a_broker_that_was_off_for_long_is_told_the_time_by_the_two_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trusted_time, "WITNESS_AFTER_MS", 60_000)
    cluster = a_cluster(3)
    cluster.kill(3)
    cluster.loop.run_for(1_200_000)
    cluster.start(3)
    cluster.loop.run_for(1)
    assert clock(cluster, 3)["ahead_ms"] > 1_000_000
    cluster.loop.run_for(30_000)
    assert clock(cluster, 3)["ahead_ms"] == 0


def test_two_brokers_whose_clocks_are_off_do_not_vouch_for_each_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trusted_time, "WITNESS_AFTER_MS", 60_000)
    cluster = a_cluster(3)
    restarted(cluster, 2, 3, off_ms=30 * DAY_MS)
    cluster.loop.run_for(60_000)
    assert clock(cluster, 1)["ahead_ms"] == 0
    assert all(abs(clock(cluster, each)["ahead_ms"] - 30 * DAY_MS) < 600_000 for each in (2, 3))


def test_a_batch_that_is_sent_again_after_a_jump_of_the_clock_is_known_as_a_repeat():
    cluster = a_cluster(1)
    records = [Record(0, cluster.loop.wall_ms(), None, b"once")]
    batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0)
    first = append(cluster, batch)
    cluster.machines[1].wall_off_ms = 2 * DAY_MS
    cluster.loop.run_for(90_000)
    again = append(cluster, batch)
    assert (again.error_code, again.base_offset) == (0, first.base_offset)


def test_a_note_that_is_damaged_or_missing_is_replaced_by_the_dates_of_the_checkpoints(
    caplog: pytest.LogCaptureFixture,
):
    cluster = a_cluster(1)
    cluster.kill(1)
    disk = cluster.machines[1].disk
    file = disk.open("/data/clock")
    file.write_at(20, [b"x"])
    file.release()
    restarted(cluster, 1, off_ms=30 * DAY_MS)
    cluster.loop.run_for(90_000)
    assert starts(cluster) == {1: 0}
    assert any("does not match its checksum" in one.getMessage() for one in caplog.records)
