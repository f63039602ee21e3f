"""A plan repeats its requests after a passing fault, but not if no broker has ever answered."""

from __future__ import annotations

from typing import Any

import pytest
from tests.ports import free_port
from tests.spark_rig import Topics

from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import BrokerUnreachable
from ottla.client.model import ClientSettings
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.rows.plan import SourceOffset
from ottla.rows.selection import Selection
from ottla.rows.survey import FetchRetries, Survey

SETTINGS = ClientSettings(bootstrap_timeout_ms=50)


def survey(cluster: Cluster) -> Survey:
    return Survey(
        cluster, Selection(topics=("t",)), read_committed=False, retries=FetchRetries(attempts=3, interval_ms=1)
    )


def test_a_cluster_that_has_never_answered_is_asked_once() -> None:
    asked = []
    with Cluster(f"127.0.0.1:{free_port()}", settings=SETTINGS) as cluster:

        def ask() -> None:
            asked.append(1)
            cluster.refresh(["t"])

        with pytest.raises(BrokerUnreachable, match="no broker answers"):
            survey(cluster)._again(ask)
    assert len(asked) == 1


def test_a_cluster_that_has_answered_is_asked_again(bootstrap: str) -> None:
    asked = []
    with Cluster(bootstrap) as cluster:
        cluster.topics()

        def ask() -> None:
            asked.append(1)
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        with pytest.raises(ApiError):
            survey(cluster)._again(ask)
    assert len(asked) == 4


class ChangesItsLeader(Cluster):
    """Answers the first questions as a broker that leads the partition no more."""

    errors = 0

    def request_to_leader(self, *asked: Any, **how: Any) -> Any:
        answer = super().request_to_leader(*asked, **how)
        if self.errors:
            self.errors -= 1
            answer.topics[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer


@pytest.mark.parametrize("errors", [0, 2])
def test_the_end_of_an_epoch_is_asked_for_again_after_a_passing_error(
    bootstrap: str, topics: Topics, errors: int
) -> None:
    """The next plan asks about a later epoch: a truncated log that is not noticed now is never noticed."""
    topic = topics.new()
    topics.count(topic, 0, 5)
    place = TopicPartition(topic, 0)
    start = SourceOffset({place: 9}, epochs={place: 0})
    with ChangesItsLeader(bootstrap) as cluster:
        cluster.errors = errors
        assert survey(cluster).truncated(start, {place: 1}) == {place: 5}


def test_an_error_that_stays_is_not_taken_for_a_whole_log(bootstrap: str, topics: Topics) -> None:
    place = TopicPartition(topics.new(), 0)
    with ChangesItsLeader(bootstrap) as cluster:
        cluster.errors = 100
        with pytest.raises(ApiError, match="the end of leader epoch 0"):
            survey(cluster).truncated(SourceOffset({place: 9}, epochs={place: 0}), {place: 1})
