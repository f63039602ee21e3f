"""The topics of an application's own, made where they do not exist."""

from __future__ import annotations

from ottla.client import Admin, ApiError, CommittedOffset, ErrorCode, TopicPartition
from ottla.client.model import LATEST
from ottla.streams.errors import TopologyError
from ottla.streams.graph import LATEST as LATEST_OFFSETS
from ottla.streams.graph import Topology
from ottla.streams.layout import TaskLayout, layout
from ottla.streams.patterns import bound


def laid_out(admin: Admin, topology: Topology, application_id: str) -> TaskLayout:
    """The layout by the topics that there are now; TopologyError where one is missing or does not fit."""
    topics = admin.list_topics()
    topology = bound(topology, topics)
    if missing := [topic for topic in topology.topics() if topic not in topics]:
        raise TopologyError(f"the topic {missing[0]} does not exist: make it first (ottla topic create {missing[0]})")
    return layout(topology, application_id, {topic: len(topics[topic].partitions) for topic in topology.topics()})


def prepared(admin: Admin, topology: Topology, application_id: str, replication_factor: int) -> TaskLayout:
    """The layout; topics of the application's own are made where they do not exist."""
    plan, topics = laid_out(admin, topology, application_id), admin.list_topics()
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


def begin_at_ends(admin: Admin, topology: Topology, application_id: str) -> None:
    """Commit the present ends of topics that a new application reads from there on, where it has no offset yet.

    Topics that match a pattern are only taken to be of a new application where it has an offset of none of them.
    """
    if all(source.offset_reset != LATEST_OFFSETS for source in topology.sources()):
        return
    known, fresh = admin.committed_offsets(application_id), list[TopicPartition]()
    for source in bound(topology, admin.list_topics()).sources():
        if source.offset_reset == LATEST_OFFSETS:
            mine = [each for topic in source.topics for each in admin.cluster.partitions(topic)]
            if source.pattern is None or not any(each in known for each in mine):
                fresh += (each for each in mine if each not in known)
    if not fresh:
        return
    ends = {each: CommittedOffset(end.offset) for each, end in admin.cluster.list_offsets(fresh, LATEST).items()}
    for fault in admin.commit_offsets(application_id, ends).values():
        # An instance that is at work since has done it, and the group takes offsets of its members alone.
        if fault is not None and fault.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise fault
