"""Creation of topics by simulated clients."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.sim.peer import Peers
from ottla.sim.plan import TopicPlan

MAX_MESSAGE_BYTES = 20_000


async def create_topic(peer: Peers, plan: TopicPlan, replication: int) -> bytes | None:
    """Create a topic; return its id, or None if the outcome is unknown or the topic existed."""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in plan.configs]
    configs.append(CreatableTopicConfig(name="max.message.bytes", value=str(MAX_MESSAGE_BYTES)))
    asked = CreatableTopic(
        name=plan.name, num_partitions=plan.partitions, replication_factor=replication, configs=configs
    )
    response = await peer.ask(CreateTopicsRequest(topics=[asked], timeout_ms=2000))
    if response is None or response.topics[0].error_code not in (ErrorCode.NONE,):
        return None
    return bytes(response.topics[0].topic_id)
