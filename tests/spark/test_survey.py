"""A plan repeats its requests after a passing fault, but not if no broker has ever answered."""

from __future__ import annotations

import pytest
from tests.ports import free_port

from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import BrokerUnreachable
from ottla.client.model import ClientSettings
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.spark.options import Selection
from ottla.spark.survey import Retries, Survey

SETTINGS = ClientSettings(bootstrap_timeout_ms=50)


def survey(cluster: Cluster) -> Survey:
    return Survey(cluster, Selection(topics=("t",)), read_committed=False, retries=Retries(attempts=3, interval_ms=1))


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
