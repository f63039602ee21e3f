"""A Produce of the same shape as the one before: its partition and records are taken, without decoding."""

from __future__ import annotations

import pytest

from ottla.kernel.ids import NO_TOPIC_ID
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.schema.codec import encoder
from ottla.wire.hot import decode_produce
from ottla.wire.hot_shape import ProduceShape, shape_of

VERSIONS = range(5, 14)
FLEXIBLE = range(9, 14)
PRODUCE_KEY, CLIENT = 0, b"c"
TAG = b"\x01\x05\x00"
"""A tag section with one empty field, number 5."""


def a_frame(
    version: int, records: bytes | None, *, correlation_id: int = 1, acks: int = -1, index: int = 3, topic: str = "t"
) -> bytes:
    """A complete request from its API key on."""
    out = bytearray(PRODUCE_KEY.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big"))
    out += len(CLIENT).to_bytes(2, "big") + CLIENT + (b"\x00" if version in FLEXIBLE else b"")
    data = TopicProduceData(
        name=topic if version < 13 else "",
        topic_id=NO_TOPIC_ID if version < 13 else topic.encode() * 16,
        partition_data=[PartitionProduceData(index=index, records=records)],
    )
    encoder(ProduceRequest, version)(ProduceRequest(acks=acks, timeout_ms=99, topic_data=[data]), out)
    return bytes(out)


def body_at(version: int) -> int:
    return 8 + 2 + len(CLIENT) + (1 if version in FLEXIBLE else 0)


def a_shape(frame: bytes, version: int) -> ProduceShape | None:
    view = memoryview(frame)
    request, end = decode_produce(view, body_at(version), version)
    assert end == len(frame)
    return shape_of(view, version, request)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384])
def test_the_records_of_the_next_request_of_a_shape_are_found(version: int, size: int) -> None:
    shape = a_shape(a_frame(version, b"first"), version)
    assert shape is not None
    found = shape.match(memoryview(a_frame(version, b"r" * size, correlation_id=2)))
    assert found == (3, b"r" * size)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("index", [0, 999, 2**31 - 1, -1])
def test_a_request_to_another_partition_of_the_topic_is_of_the_shape(version: int, index: int) -> None:
    shape = a_shape(a_frame(version, b"first"), version)
    assert shape is not None
    assert shape.match(memoryview(a_frame(version, b"records", index=index))) == (index, b"records")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_with_other_bytes_around_its_records_is_of_another_shape(version: int) -> None:
    shape = a_shape(a_frame(version, b"first"), version)
    assert shape is not None
    assert shape.match(memoryview(a_frame(version, b"first", acks=1))) is None
    assert shape.match(memoryview(a_frame(version, b"first", topic="u"))) is None
    assert shape.match(memoryview(a_frame(version, None))) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_with_a_byte_too_many_or_too_few_is_of_no_shape(version: int) -> None:
    frame = a_frame(version, b"records")
    shape = a_shape(frame, version)
    assert shape is not None
    for other in (frame + b"\x00", frame[:-1], frame[: -len(b"records")]):
        assert shape.match(memoryview(other)) is None


@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_request_with_tagged_fields_behind_its_records_is_decoded(version: int) -> None:
    """The fields may have a meaning for a later broker, and are malformed in place of the three empty sections."""
    frame = a_frame(version, b"records")
    shape = a_shape(frame, version)
    assert shape is not None and frame[-3:] == bytes(3)
    for tags in (TAG + bytes(2), b"\x00" + TAG + b"\x00", bytes(2) + TAG):
        tagged = frame[:-3] + tags
        assert shape.match(memoryview(tagged)) is None
        assert a_shape(tagged, version) is None
    assert shape.match(memoryview(frame[:-3] + TAG)) is None
    for place in (-1, -2, -3):
        changed = bytearray(frame)
        changed[place] = 1
        assert shape.match(memoryview(changed)) is None
