"""Metadata (key 3, versions 0 to 13): brokers, topics, leaders; each topic's encoded answer is cached until it changes.

A missing topic that is requested by name is created if the client and the broker allow it. The answer is
LEADER_NOT_AVAILABLE until the topic is ready, or complete if creating it was quick; Apache Kafka 4.3.1 answers
UNKNOWN_TOPIC_OR_PARTITION first. Topics by id from version 10 on (KIP-516), allowed operations from version 8 on if
the client asks for them (KIP-430).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.requests.operations import allowed_operations
from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.topics import name_error
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId
from ottla.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ottla.metadata.state import Topic
from ottla.schema.codec import encoder
from ottla.wire.connection import Part

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_SIZE_AND_CORRELATION = Struct(">ii")
_INT32 = Struct(">i")
_FLEXIBLE = 9
_NOT_ASKED = -0x80000000
"""Instead of operations, where the client did not ask for them."""


async def handle(call: Call, request: MetadataRequest) -> list[Part]:
    node = call.node
    await node.signs_of_life.of(_leaders(call, request))  # one may just have died
    if (settled := node.doubts.settled()) is not None:
        await settled
    metadata = node.metadata
    version = call.api_version
    with_operations = request.include_topic_authorized_operations
    fragments: list[bytes] = []
    if request.topics is None or (version == 0 and not request.topics):
        fragments = [
            _topic(call, topic, with_operations=with_operations)
            for topic in metadata.visible_topics()
            if call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name, told=False)
        ]
    else:
        may_create = node.config.auto_create_topics_enable and request.allow_auto_topic_creation
        for number, asked in enumerate(_each_once(request.topics), 1):
            if number % A_TURN == 0:
                await next_turn(node.clock)
            found: Topic | ErrorCode
            if asked.topic_id != NO_TOPIC_ID and version >= 12:
                found = metadata.topic_by_id(asked.topic_id) or ErrorCode.UNKNOWN_TOPIC_ID
                if isinstance(found, Topic) and not call.may(Operation.DESCRIBE, ResourceKind.TOPIC, found.name):
                    found = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    asked.name = None
            elif asked.name is None or asked.topic_id != NO_TOPIC_ID:
                found = ErrorCode.INVALID_REQUEST  # versions 10 and 11 never took ids (KAFKA-10774)
            elif not call.may(Operation.DESCRIBE, ResourceKind.TOPIC, asked.name):
                found = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                found = metadata.topic(asked.name) or await _missing(call, asked.name, may_create=may_create)
            if isinstance(found, Topic):
                fragments.append(_topic(call, found, with_operations=with_operations))
            else:
                fragments.append(_refused(asked.name, asked.topic_id, found, version))
    cluster = _NOT_ASKED
    if request.include_cluster_authorized_operations:
        may_describe = call.may(Operation.DESCRIBE, ResourceKind.CLUSTER, CLUSTER_NAME, told=False)
        cluster = allowed_operations(call, ResourceKind.CLUSTER) if may_describe else 0
    return [_encode(call, fragments, cluster)]


def _topic(call: Call, topic: Topic, *, with_operations: bool) -> bytes:
    fragment = call.node.fragments.topic(call.node.metadata, topic, call.api_version)
    if not with_operations:
        return fragment
    return _with_operations(fragment, call.api_version, allowed_operations(call, ResourceKind.TOPIC, topic.name))


def _leaders(call: Call, request: MetadataRequest) -> Iterator[BrokerId]:
    """The brokers to which the answer may send the client; all, if to find the leaders would take long."""
    metadata = call.node.metadata
    if request.topics is None or len(request.topics) > A_TURN:
        yield from metadata.brokers
        return
    for asked in request.topics:
        topic = metadata.topic(asked.name) if asked.name else metadata.topic_by_id(asked.topic_id)
        if topic is not None and call.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name, told=False):
            yield from {partition.leader for partition in topic.partitions}


def _with_operations(fragment: bytes, version: int, operations: int) -> bytes:
    """The same topic with its allowed operations, which are its last field; tags, of which it has none, follow it."""
    tags = fragment[len(fragment) - (version >= _FLEXIBLE) :]
    return fragment[: -4 - len(tags)] + _INT32.pack(operations) + tags


def _each_once(topics: list[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    """Each topic once, as in Kafka: a small request that names a topic a million times must not get a huge answer."""
    return {(topic.name, topic.topic_id): topic for topic in topics}.values()


async def _missing(call: Call, name: str, *, may_create: bool) -> Topic | ErrorCode:
    if name_error(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not may_create:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    may_create_any = call.may(Operation.CREATE, ResourceKind.CLUSTER, CLUSTER_NAME, told=False)
    if not may_create_any and not call.may(Operation.CREATE, ResourceKind.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    error = await call.node.create_topic_as_configured(name)
    if error and error != ErrorCode.TOPIC_ALREADY_EXISTS:
        return error
    return call.node.metadata.topic(name) or ErrorCode.LEADER_NOT_AVAILABLE


def _refused(name: str | None, topic_id: bytes, error: ErrorCode, version: int) -> bytes:
    if name is None and version < 12:
        name = ""
    out = bytearray()
    topic = MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id)
    encoder(MetadataResponseTopic, version)(topic, out)
    return bytes(out)


def _encode(call: Call, fragments: list[bytes], cluster_operations: int) -> bytes:
    """The whole answer: the declared message without its topics, with the fragments put in their place."""
    version = call.api_version
    node = call.node
    answer = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in node.endpoints.listed(call.connection)
        ],
        cluster_id=node.metadata.cluster_id,
        controller_id=node.controller_for_clients(),
        cluster_authorized_operations=cluster_operations,
    )
    out = bytearray(_SIZE_AND_CORRELATION.pack(0, call.correlation_id))
    if version >= _FLEXIBLE:
        out.append(0)
    encoder(MetadataResponse, version)(answer, out)
    tail = _tail_size(version)
    ending = bytes(out[len(out) - tail :])
    if version >= _FLEXIBLE:
        del out[len(out) - tail - 1 :]
        _write_varint(out, len(fragments) + 1)
    else:
        del out[len(out) - tail - 4 :]
        out += _INT32.pack(len(fragments))
    for fragment in fragments:
        out += fragment
    out += ending
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _tail_size(version: int) -> int:
    """Bytes after the topics: cluster operations (8 to 10), a top-level error (13 on), tags (9 on)."""
    return 4 * (8 <= version <= 10) + 2 * (version >= 13) + (version >= _FLEXIBLE)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
