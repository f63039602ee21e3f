"""A broker that has not read of a new topic finds it when a client asks for it."""

from __future__ import annotations

import pytest
from sim_cluster import SimCluster

from ottla.kernel.errors import ErrorCode
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.sim.coordination import CoordinationFaults

TOPIC = 2


class Place:
    """Two brokers: the second is not notified of new entries, and the first makes a topic."""

    def __init__(self):
        self.cluster = SimCluster(2)
        self.cluster.machines[2].set_coordination(CoordinationFaults(lost_hint=1.0), cut=False)
        self.topic_id = self.cluster.create_topic()
        assert self.cluster.node(2).metadata.topic("t") is None

    def deleted(self, **by):
        request = DeleteTopicsRequest(topics=[DeleteTopicState(**by)], timeout_ms=5000)
        return self.cluster.ask(2, request).responses[0].error_code

    def configured(self):
        config = AlterableConfig(name="retention.ms", config_operation=0, value="5000")
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
        return self.cluster.ask(2, IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code


@pytest.mark.parametrize("by", ["name", "id"])
def test_it_can_be_deleted(by):
    place = Place()
    assert place.deleted(**({"name": "t"} if by == "name" else {"topic_id": place.topic_id})) == ErrorCode.NONE
    place.cluster.until(lambda: place.cluster.node(1).metadata.topic("t") is None)


def test_it_can_be_configured():
    place = Place()
    assert place.configured() == ErrorCode.NONE
    node = place.cluster.node(1)
    place.cluster.until(lambda: node.around.options.topic_config(node.metadata.topic("t")).retention_ms == 5000)


def test_where_the_metadata_cannot_be_read_nobody_says_that_it_is_not_there():
    place = Place()
    place.cluster.machines[2].set_coordination(CoordinationFaults(lost_hint=1.0), cut=True)
    assert place.deleted(name="t") == ErrorCode.REQUEST_TIMED_OUT
    assert place.configured() == ErrorCode.REQUEST_TIMED_OUT


def test_what_is_nowhere_is_unknown():
    place = Place()
    assert place.deleted(name="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
