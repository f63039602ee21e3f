"""Creates a state topic where it does not exist, checks it, and marks it as not to be deleted."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ottla.client.admin import admin
from ottla.client.admin.admin import ConfigOperation, NewTopic, Resource, ResourceType
from ottla.client.aio.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.model import TopicView
from ottla.kernel.errors import ApiError, ErrorCode

_POLICY, _PROTECTION = "cleanup.policy", "deletion.protection"
_log = logging.getLogger(__name__)


class UnusableTopic(Exception):
    """The topic cannot hold the state; the message names a remedy."""


@dataclass(frozen=True, slots=True)
class Words:
    """The parts of sentences that are the owner's: what a topic holds, and what to do."""

    owner: str
    """`a registry`."""
    content: str
    """`schemas`."""
    restart: str
    """`Start the registry again`."""
    remedy: str
    """The sentence about damage: what would be wrong, and what to do."""


async def open_topic(
    cluster: Cluster, topic: str, replication_factor: int, words: Words, partitions: int = 1
) -> TopicView:
    """Create the topic where it does not exist, and check it; UnusableTopic where it cannot be used."""
    wanted = NewTopic(topic, partitions, replication_factor, {_POLICY: "compact"})
    outcome = (await cluster.run(admin.create_topics(cluster.plan, [wanted])))[topic]
    if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome
    view = await cluster.topic(topic)
    if len(view.partitions) != partitions:
        needed = "one" if partitions == 1 else partitions
        raise UnusableTopic(f"the topic {topic} has {len(view.partitions)} partitions; {words.owner} needs {needed}")
    resource = Resource(ResourceType.TOPIC, topic)
    story = admin.describe_configs(cluster.plan, [resource], keys=[_POLICY, _PROTECTION])
    found = (await cluster.run(story))[resource]
    options = {each.name: each.value for each in found} if isinstance(found, list) else {}
    policy = options.get(_POLICY)
    if policy is not None and policy != "compact":
        raise UnusableTopic(
            f"cleanup.policy of the topic {topic} is {policy}: old {words.content} would be deleted; set it to compact"
        )
    if options.get(_PROTECTION) == "auto":
        await _protect(cluster, resource)
    return view


async def _protect(cluster: Cluster, resource: Resource) -> None:
    """Have ottla's brokers refuse to delete the topic; Apache Kafka has no such option."""
    edits = {resource: [(_PROTECTION, ConfigOperation.SET, "true")]}
    try:
        fault: Exception | None = (await cluster.run(admin.alter_configs(cluster.plan, edits)))[resource]
    except (ApiError, ClientError) as error:
        fault = error
    if fault is not None:
        _log.warning("the topic %s is not protected from being deleted: %s", resource.name, fault)
