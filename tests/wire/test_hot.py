"""`wire/hot.py` agrees with the declared codec: it reads the same values and writes the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.ids import NO_TOPIC_ID
from ottla.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from ottla.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.schema.codec import MalformedMessage, decoder, encoder
from ottla.wire.hot import FetchedPartition, decode_fetch, decode_produce
from ottla.wire.hot_answers import FetchAnswer, encode_produced

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=8)
IDS = st.binary(min_size=16, max_size=16)
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)


class InMemory:
    """A slice's file, for the encoder, which only counts its bytes."""

    path = "memory"

    def __init__(self, content: bytes) -> None:
        self.content = content

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, length: int) -> bytes:
        return self.content[position : position + length]


def slice_of(content: bytes):
    from ottla.kernel.seams import FileSlice

    return FileSlice(InMemory(content), 0, len(content))  # type: ignore[arg-type]


def joined(parts) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part.read() for part in parts)


@st.composite
def produce_requests(draw, version: int):
    return ProduceRequest(
        transactional_id=draw(st.none() | NAMES),
        acks=draw(INT16),
        timeout_ms=draw(INT32),
        topic_data=[
            TopicProduceData(
                name=draw(NAMES) if version < 13 else "",
                topic_id=draw(IDS) if version >= 13 else NO_TOPIC_ID,
                partition_data=[
                    PartitionProduceData(index=draw(INT32), records=draw(st.none() | st.binary(max_size=200)))
                    for _ in range(draw(st.integers(0, 3)))
                ],
            )
            for _ in range(draw(st.integers(0, 3)))
        ],
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_produce_request_is_read_as_the_declared_codec_reads_it(version, data):
    message = data.draw(produce_requests(version))
    out = bytearray()
    encoder(ProduceRequest, version)(message, out)
    read, end = decode_produce(memoryview(out), 0, version)
    assert end == len(out)
    assert (read.transactional_id, read.acks, read.timeout_ms) == (
        message.transactional_id,
        message.acks,
        message.timeout_ms,
    )
    assert read.topics == [
        (topic.name, topic.topic_id, [(each.index, each.records) for each in topic.partition_data])
        for topic in message.topic_data
    ]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_produce_answer_has_the_bytes_of_the_declared_codec(version, data):
    draw = data.draw
    topics = [
        (
            draw(NAMES) if version < 13 else "",
            draw(IDS) if version >= 13 else NO_TOPIC_ID,
            [(draw(INT32), draw(INT16), draw(INT64), draw(INT64), draw(INT64)) for _ in range(draw(st.integers(0, 3)))],
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    throttle = draw(INT32)
    declared = ProduceResponse(throttle_time_ms=throttle)
    for name, topic_id, partitions in topics:
        declared.responses.append(
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index, error_code=error, base_offset=base, log_append_time_ms=time, log_start_offset=start
                    )
                    for index, error, base, time, start in partitions
                ],
            )
        )
    expected = bytearray((7).to_bytes(4, "big"))
    if version >= 9:
        expected.append(0)
    encoder(ProduceResponse, version)(declared, expected)
    assert encode_produced(7, version, topics, throttle) == len(expected).to_bytes(4, "big") + expected


@st.composite
def fetch_requests(draw, version: int):
    by_id = version >= 13
    state = ReplicaState()
    if version >= 15 and draw(st.booleans()):
        state = ReplicaState(replica_id=draw(INT32), replica_epoch=draw(INT64))
    topics = [
        FetchTopic(
            topic="" if by_id else draw(NAMES),
            topic_id=draw(IDS) if by_id else NO_TOPIC_ID,
            partitions=[
                FetchPartition(
                    partition=draw(INT32),
                    current_leader_epoch=draw(INT32) if version >= 9 else -1,
                    fetch_offset=draw(INT64),
                    last_fetched_epoch=draw(INT32) if version >= 12 else -1,
                    log_start_offset=draw(INT64) if version >= 5 else -1,
                    partition_max_bytes=draw(INT32),
                    **({"replica_directory_id": draw(IDS)} if version >= 17 and draw(st.booleans()) else {}),
                )
                for _ in range(draw(st.integers(0, 3)))
            ],
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    forgotten = []
    if version >= 7:
        forgotten = [
            ForgottenTopic(
                topic="" if by_id else draw(NAMES),
                topic_id=draw(IDS) if by_id else NO_TOPIC_ID,
                partitions=draw(st.lists(INT32, max_size=3)),
            )
            for _ in range(draw(st.integers(0, 2)))
        ]
    return FetchRequest(
        replica_id=draw(INT32) if version <= 14 else -1,
        replica_state=state,
        max_wait_ms=draw(INT32),
        min_bytes=draw(INT32),
        max_bytes=draw(INT32),
        isolation_level=draw(st.integers(-128, 127)),
        session_id=draw(INT32) if version >= 7 else 0,
        session_epoch=draw(INT32) if version >= 7 else -1,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id=draw(NAMES) if version >= 11 else "",
        **({"cluster_id": draw(st.none() | NAMES)} if version >= 12 else {}),
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_fetch_request_is_read_as_the_declared_codec_reads_it(version, data):
    message = data.draw(fetch_requests(version))
    out = bytearray()
    encoder(FetchRequest, version)(message, out)
    read, end = decode_fetch(memoryview(out), 0, version)
    assert end == len(out)
    replica = (message.replica_id, -1)
    if version >= 15:
        replica = (message.replica_state.replica_id, message.replica_state.replica_epoch)
    assert (read.replica_id, read.replica_epoch) == replica
    assert read[2:8] == (
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        message.session_id,
        message.session_epoch,
    )
    assert read.rack == message.rack_id
    assert read.topics == [
        (
            topic.topic,
            topic.topic_id,
            [
                (
                    each.partition,
                    each.current_leader_epoch,
                    each.fetch_offset,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                    each.partition_max_bytes,
                )
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    assert read.forgotten == [(each.topic, each.topic_id, each.partitions) for each in message.forgotten_topics_data]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_fetch_answer_has_the_bytes_of_the_declared_codec(version, data):
    draw = data.draw
    error = draw(INT16) if version >= 7 else 0
    session_id = draw(INT32) if version >= 7 else 0
    throttle = draw(INT32)
    topics = []
    for _ in range(draw(st.integers(0, 3))):
        partitions = []
        for _ in range(draw(st.integers(0, 3))):
            content = draw(st.binary(max_size=50))
            partitions.append(
                FetchedPartition(
                    draw(INT32),
                    draw(INT16),
                    draw(INT64),
                    draw(INT64),
                    draw(INT64) if version >= 5 else -1,
                    draw(st.none() | st.lists(st.tuples(INT64, INT64), max_size=2)),
                    draw(INT32) if version >= 11 else -1,
                    [slice_of(content)] if content else [],
                    len(content),
                    draw(st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))) if version >= 12 else None,
                    draw(st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))) if version >= 12 else None,
                )
            )
        topics.append((draw(NAMES) if version < 13 else "", draw(IDS) if version >= 13 else NO_TOPIC_ID, partitions))
    endpoints = []
    if version >= 16:
        endpoints = draw(st.lists(st.tuples(INT32, NAMES, INT32, st.none() | NAMES), max_size=2))
    answer = FetchAnswer(9, version, throttle_ms=throttle, error=error, session_id=session_id, topics=len(topics))
    for name, topic_id, partitions in topics:
        answer.topic(name, topic_id, partitions)
    ours = joined(answer.finish(endpoints))

    declared = FetchResponse(
        throttle_time_ms=throttle,
        error_code=error,
        session_id=session_id,
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[_declared(each) for each in partitions])
            for name, topic_id, partitions in topics
        ],
        node_endpoints=[
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack) for node_id, host, port, rack in endpoints
        ],
    )
    expected = bytearray((9).to_bytes(4, "big"))
    if version >= 12:
        expected.append(0)
    encoder(FetchResponse, version)(declared, expected)
    assert ours == len(expected).to_bytes(4, "big") + expected
    decoder(FetchResponse, version)(memoryview(ours), 9 if version >= 12 else 8)


def _declared(fetched: FetchedPartition) -> PartitionData:
    aborted = fetched.aborted
    data = PartitionData(
        partition_index=fetched.partition,
        error_code=fetched.error,
        high_watermark=fetched.high_watermark,
        last_stable_offset=fetched.last_stable_offset,
        log_start_offset=fetched.log_start_offset,
        aborted_transactions=None
        if aborted is None
        else [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in aborted],
        preferred_read_replica=fetched.preferred_read_replica,
        records=b"".join(piece.read() for piece in fetched.slices),
    )
    if fetched.diverging is not None:
        data.diverging_epoch = EpochEndOffset(epoch=fetched.diverging[0], end_offset=fetched.diverging[1])
    if fetched.leader is not None:
        data.current_leader = LeaderIdAndEpoch(leader_id=fetched.leader[0], leader_epoch=fetched.leader[1])
    return data


@settings(max_examples=300, deadline=None)
@given(data=st.data(), fetch=st.booleans())
def test_a_mutated_frame_is_read_alike_or_refused_alike(data, fetch):
    version = data.draw(st.sampled_from(FETCH_VERSIONS if fetch else PRODUCE_VERSIONS))
    out = bytearray()
    if fetch:
        encoder(FetchRequest, version)(data.draw(fetch_requests(version)), out)
    else:
        encoder(ProduceRequest, version)(data.draw(produce_requests(version)), out)
    for _ in range(data.draw(st.integers(1, 3))):
        out[data.draw(st.integers(0, len(out) - 1))] = data.draw(st.integers(0, 255))
    view = memoryview(bytes(out[: data.draw(st.integers(0, len(out)))]))
    hot = decode_fetch if fetch else decode_produce
    declared = decoder(FetchRequest if fetch else ProduceRequest, version)
    outcomes = []
    for read in (lambda: hot(view, 0, version), lambda: declared(view, 0)):
        try:
            outcomes.append(read()[1])
        except MalformedMessage:
            outcomes.append("malformed")
    assert outcomes[0] == outcomes[1]


def _with_last_tags(encoded: bytes, tags: bytes) -> memoryview:
    """A flexible body with `tags` in place of its own empty tag section, which comes last."""
    assert encoded[-1] == 0
    return memoryview(encoded[:-1] + tags)


@pytest.mark.parametrize("fetch", [False, True])
@pytest.mark.parametrize(
    ("tags", "legal"),
    [
        (b"\x02\x05\x01x\x06\x01y", True),
        (b"\x02\x05\x01x\x05\x01y", False),
        (b"\x02\x06\x01x\x05\x01y", False),
        (b"\x01\x05\x02x", False),
        (b"\x02\x05\x01x", False),
    ],
)
def test_tagged_fields_stand_in_order_and_none_comes_twice(fetch, tags, legal):
    message, version = (FetchRequest, 12) if fetch else (ProduceRequest, 9)
    out = bytearray()
    encoder(message, version)(message(), out)
    view = _with_last_tags(bytes(out), tags)
    for read in (
        lambda: (decode_fetch if fetch else decode_produce)(view, 0, version),
        lambda: decoder(message, version)(view, 0),
    ):
        if legal:
            assert read()[1] == len(view)
        else:
            with pytest.raises(MalformedMessage):
                read()
