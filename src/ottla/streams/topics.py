"""The topics of an application's own, made where they do not exist."""

from __future__ import annotations

from ottla.client import Admin, ApiError, ErrorCode
from ottla.streams.errors import TopologyError
from ottla.streams.graph import Topology
from ottla.streams.layout import TaskLayout, layout


def prepared(admin: Admin, topology: Topology, application_id: str, replication_factor: int) -> TaskLayout:
    """The layout; topics of the application's own are made where they do not exist."""
    topics = admin.list_topics()
    if missing := [topic for topic in topology.topics() if topic not in topics]:
        raise TopologyError(f"the topic {missing[0]} does not exist: make it first (ottla topic create {missing[0]})")
    plan = layout(topology, application_id, {topic: len(topics[topic].partitions) for topic in topology.topics()})
    own = {plan.topic(name): (count, {"retention.ms": "-1"}) for name, count in plan.repartitions.items()}
    own |= {plan.changelog(name): (count, {"cleanup.policy": "compact"}) for name, count in plan.changelogs.items()}
    for topic, (count, configs) in own.items():
        if topic not in topics:
            try:
                admin.create_topic(
                    topic, count, replication_factor, {**configs, "message.timestamp.type": "CreateTime"}
                )
                continue
            except ApiError as fault:
                if fault.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            topics = admin.list_topics()
        if (there := len(topics[topic].partitions)) != count:
            raise TopologyError(
                f"the application's topic {topic} has {there} partitions, and the topology needs {count} now: run it "
                "under another application id, or delete the application's topics and its group"
            )
    return plan
