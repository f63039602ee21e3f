from contextlib import suppress

import pytest
from group_desk import subscription
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.consumer_entries import apply
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.entries import (
    decode_entry,
    encode_entry,
    group_entry,
    offset_entry,
    partition_for,
    subscribed_topics,
)
from ottla.groups.values import GroupEntry
from ottla.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from ottla.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from ottla.schema.codec import MalformedMessage


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("test-group", 12),
        ("console-consumer-12345", 6),
        ("größe", 7),
        ("🦦", 40),
        ("polygenelubricants", 0),
    ],
)
def test_a_group_lives_where_java_hashes_it(group: str, partition: int):
    """Numbers from Java; the last name hashes to the one integer that has no absolute value."""
    assert partition_for(group, 50) == partition


def test_an_offset_is_written_as_kafka_writes_it():
    value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="m", commit_timestamp=1000, topic_id=bytes(range(16)))
    key, body = encode_entry(offset_entry("g", "topic", 3, value))
    assert key == b"\0\x01" + b"\0\x01g" + b"\0\x05topic" + b"\0\0\0\x03"
    assert body == (
        b"\0\x04" + (42).to_bytes(8, "big") + b"\0\0\0\x07" + b"\x02m" + (1000).to_bytes(8, "big")
        + b"\x01\x00\x10" + bytes(range(16))
    )  # fmt: skip


def test_an_offset_with_an_expiry_of_its_own_is_written_in_version_1():
    value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="m", commit_timestamp=1000, expire_timestamp=2000)
    _, body = encode_entry(offset_entry("g", "t", 0, value))
    assert body == b"\0\x01" + (42).to_bytes(8, "big") + b"\0\x01m" + (1000).to_bytes(8, "big") + (2000).to_bytes(
        8, "big"
    )


def test_a_group_is_written_as_kafka_writes_it():
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=[member],
    )
    key, body = encode_entry(group_entry("g", value))
    assert key == b"\0\x02\0\x01g"
    assert body == (
        b"\0\x03" b"\0\x08consumer" b"\0\0\0\x05" b"\0\x05range" b"\0\x01m" + (9).to_bytes(8, "big")
        + b"\0\0\0\x01" b"\0\x01m" b"\xff\xff" b"\0\x01c" b"\0\x02/h" b"\0\0\0\x01" b"\0\0\0\x02"
        + b"\0\0\0\x01s" b"\0\0\0\x01a"
    )  # fmt: skip


CONSUMER_MEMBER = "01 01 02 63 02 68 02 02 74 01 ff ff ff ff 01"
"""Client c on host h reads topic t: the fields before the one about the classic protocol."""


@pytest.mark.parametrize(
    ("classic", "written"),
    [
        (None, "01 00 01 00"),
        (
            ClassicMemberMetadata(session_timeout_ms=5, supported_protocols=[ClassicProtocol(name="r", metadata=b"x")]),
            "01 00 0c 01 00 00 00 05 02 02 72 02 78 00 00",
        ),
    ],
)
def test_a_member_of_a_consumer_group_is_written_as_kafka_writes_it(
    classic: ClassicMemberMetadata | None, written: str
):
    """The bytes are those of Apache Kafka 4.3.1."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id="",
        rack_id="",
        client_id="c",
        client_host="h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        server_assignor="",
        classic_member_metadata=classic,
    )
    entry = GroupEntry(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), value, 0)
    key, body = encode_entry(entry)
    assert body is not None and body[2:].hex(" ") == f"{CONSUMER_MEMBER} {written}"
    assert decode_entry(key, body) == entry


def test_a_member_without_a_word_about_the_classic_protocol_is_of_the_consumer_protocol():
    group = ConsumerGroup("g")
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    read = decode_entry(encode_entry(GroupEntry(key, None, 0))[0], b"\0\0" + bytes.fromhex(CONSUMER_MEMBER + "00"))
    assert read is not None
    apply(group, key, read.value)
    assert group.members["m"].classic is None


@pytest.mark.parametrize(
    "entry",
    [
        offset_entry("g", "t", 1, OffsetCommitValue(offset=1, metadata="x", commit_timestamp=5, topic_id=bytes(16))),
        offset_entry("g", "t", 1, OffsetCommitValue(offset=1, commit_timestamp=5, expire_timestamp=6)),
        offset_entry("g", "t", 1, None),
        group_entry("g", GroupMetadataValue(protocol_type="", protocol=None, leader=None, current_state_timestamp=3)),
        group_entry("g", None),
    ],
)
def test_what_is_written_is_read_back(entry):
    assert decode_entry(*encode_entry(entry)) == entry


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_values_of_every_version_are_read(version: int):
    from ottla.schema.codec import encode

    key, _ = encode_entry(group_entry("g", None))
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None)
    read = decode_entry(key, version.to_bytes(2, "big") + encode(value, version))
    assert read is not None
    assert read.value == value


def test_a_key_of_the_oldest_kind_is_an_offset_too():
    key, body = encode_entry(offset_entry("g", "t", 1, OffsetCommitValue(offset=9)))
    read = decode_entry(b"\0\0" + key[2:], body)
    assert read is not None
    assert read.value.offset == 9


def test_records_of_other_group_protocols_are_left_alone():
    assert decode_entry(b"\0\x0b\0\x01g", b"\0\0\0\0\0\1") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (b"\0\x02\0\x05g", None),
        (b"\0\x02\0\x01g", b"\0"),
        (b"\0\x02\0\x01g", b"\0\x05aaaaaaaaaaaaaa"),
        (b"\0\x02\0\x01g", b"\0\x03\0\x08cons"),
    ],
)
def test_bytes_that_are_no_record_are_malformed(key: bytes, value: bytes | None):
    with pytest.raises(MalformedMessage):
        decode_entry(key, value)


def test_the_topics_of_all_members_are_read_from_their_subscriptions():
    assert subscribed_topics([subscription("a", "b"), subscription("c", version=3)]) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\0",
        b"\0\0\0\0\0\x01",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\x01\0\x09a",
        b"\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\x01\0\x01\xff",
    ],
)
def test_topics_are_unknown_where_one_subscription_cannot_be_read(broken: bytes):
    assert subscribed_topics([subscription("a"), broken]) is None


@given(st.binary(max_size=60), st.none() | st.binary(max_size=120))
def test_any_bytes_are_a_record_or_malformed(key: bytes, value: bytes | None):
    for kind in (b"", b"\0\x00", b"\0\x01", b"\0\x02"):
        for version in (b"", b"\0\x00", b"\0\x03", b"\0\x04"):
            with suppress(MalformedMessage):
                decode_entry(kind + key, None if value is None else version + value)


@given(st.binary(max_size=60))
def test_any_subscription_is_read_or_unknown(metadata: bytes):
    topics = subscribed_topics([b"\0\0" + metadata])
    assert topics is None or all(isinstance(topic, str) for topic in topics)
