"""An older copy of a running broker's directory is put back after all brokers were killed, and may lead."""

from __future__ import annotations

import logging

from three_replicas import BATCHES, ThreeReplicas, everything

from ottla.cluster.commands import DeposeShortLeader
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

DATA = "/data"
MORE = 8


class OlderLeader(ThreeReplicas):
    """The leader's directory is copied while it runs; then more records are committed and checkpointed everywhere."""

    def __init__(self, **configs):
        super().__init__(**configs)
        self.older = self.leader
        self.others = self.followers()
        copy = self.cluster.machines[self.older].disk.copied(DATA)
        for number in range(BATCHES, BATCHES + MORE):
            self.produce(number)
        self.cluster.until(lambda: all(self.noted(number) == BATCHES + MORE for number in (1, 2, 3)), 60_000)
        for number in (1, 2, 3):
            self.cluster.kill(number)
        self.cluster.machines[self.older].disk.put_back(DATA, copy)
        self.cluster.store.ages.clear()  # as if the copy were of the last second: its age does not tell

    def noted(self, number):
        return self.log_directory(number).offsets.high_watermark(TopicPartition("t", 0))

    def log_directory(self, number):
        (directory,) = self.cluster.node(number).replicas.directories.online
        return directory


def test_an_older_copy_of_this_incarnation_leads_until_a_replica_says_what_it_lacks(caplog):
    cluster = OlderLeader(min_insync_replicas="2")
    with caplog.at_level(logging.WARNING):
        for number in (cluster.older, *cluster.others):
            cluster.cluster.start(number)
        cluster.cluster.until(lambda: cluster.leader in cluster.others and len(cluster.state().in_sync) == 3, 60_000)
    for number in (1, 2, 3):
        assert cluster.values(number) == everything(BATCHES + MORE)
    lines = [record.getMessage() for record in caplog.records if "stops following" in record.getMessage()]
    assert lines, "it is said"
    assert f"leader {cluster.older} in epoch" in lines[0]
    assert f"cut back to {BATCHES}, below what was committed here, {BATCHES + MORE}" in lines[0]
    cluster.produce(BATCHES + MORE)


def test_a_replica_that_counts_no_more_keeps_what_it_has_and_says_what_to_do(caplog):
    """The older copy was the only one in sync for a while: the cluster cannot tell which replica is right."""
    cluster = OlderLeader(min_insync_replicas="1")
    first, _ = cluster.others
    cluster.cluster.start(cluster.older)
    cluster.cluster.until(lambda: cluster.state().in_sync == (cluster.older,), 60_000)
    assert cluster.leader == cluster.older
    with caplog.at_level(logging.ERROR):
        cluster.cluster.start(first)
        cluster.cluster.until(lambda: any("an administrator has to choose" in each for each in caplog.messages), 60_000)
    assert cluster.leader == cluster.older
    assert cluster.values(first) == everything(BATCHES + MORE)
    refused = cluster.cluster.node(first).follow.submit(
        DeposeShortLeader(cluster.state().topic_id, 0, cluster.state().leader_epoch)
    )
    outcome = cluster.cluster.end_of(refused)
    assert isinstance(outcome, ApiError) and outcome.code == ErrorCode.INELIGIBLE_REPLICA
