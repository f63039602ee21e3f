"""Our codecs against those of the `kio` package, which are tested against Apache Kafka's own classes."""

from __future__ import annotations

import dataclasses
import datetime
import io
import typing
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader2
from kio.schema.response_header.v0.header import ResponseHeader as KioResponseHeader0
from kio.schema.response_header.v1.header import ResponseHeader as KioResponseHeader1
from kio.serial import entity_reader, entity_writer
from tests.messages.building import each_version, messages, version_id

from ottla.kernel.errors import ErrorCode
from ottla.messages import consumer_group_records, consumer_protocol, group_records, transaction_records
from ottla.messages.headers import RequestHeader, ResponseHeader
from ottla.schema.codec import decode, encode
from ottla.schema.message import Field, Message, schema_of
from ottla.schema.types import Array
from ottla.wire.apis import APIS

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
# kio converts dates through a float, which keeps milliseconds until about the year 2200.
LAST_DATE_MS = (datetime.datetime(2200, 1, 1, tzinfo=datetime.UTC) - EPOCH) // MILLISECOND

# kio lacks these; tools/schema_diff.py compares them with Kafka's definitions, tests/golden with Kafka's bytes.
UNKNOWN_TO_KIO = [
    group_records.OffsetCommitKey,
    group_records.OffsetCommitValue,
    group_records.GroupMetadataKey,
    group_records.GroupMetadataValue,
    consumer_group_records.ConsumerGroupMetadataKey,
    consumer_group_records.ConsumerGroupMetadataValue,
    consumer_group_records.ConsumerGroupPartitionMetadataKey,
    consumer_group_records.ConsumerGroupPartitionMetadataValue,
    consumer_group_records.ConsumerGroupMemberMetadataKey,
    consumer_group_records.ConsumerGroupMemberMetadataValue,
    consumer_group_records.ConsumerGroupTargetAssignmentMetadataKey,
    consumer_group_records.ConsumerGroupTargetAssignmentMetadataValue,
    consumer_group_records.ConsumerGroupTargetAssignmentMemberKey,
    consumer_group_records.ConsumerGroupTargetAssignmentMemberValue,
    consumer_group_records.ConsumerGroupCurrentMemberAssignmentKey,
    consumer_group_records.ConsumerGroupCurrentMemberAssignmentValue,
    consumer_group_records.ConsumerGroupRegularExpressionKey,
    consumer_group_records.ConsumerGroupRegularExpressionValue,
    consumer_protocol.ConsumerProtocolSubscription,
    consumer_protocol.ConsumerProtocolAssignment,
    transaction_records.TransactionLogKey,
    transaction_records.TransactionLogValue,
]
HEADERS = {
    (RequestHeader, 1): KioRequestHeader1,
    (RequestHeader, 2): KioRequestHeader2,
    (ResponseHeader, 0): KioResponseHeader0,
    (ResponseHeader, 1): KioResponseHeader1,
}
BY_CLASS = {api.request: (load_request_schema, api.key) for api in APIS.values()}
BY_CLASS |= {api.response: (load_response_schema, api.key) for api in APIS.values()}
PAIRS = [pair for pair in each_version() if pair[0] not in UNKNOWN_TO_KIO]


def test_kio_knows_every_class_and_version_but_those_named_here() -> None:
    with_kio = {cls for cls, _ in PAIRS}
    assert with_kio == set(BY_CLASS) | {cls for cls, _ in HEADERS}
    assert all(dataclasses.is_dataclass(kio_class(cls, version)) for cls, version in PAIRS)


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=version_id)
def test_what_we_encode_kio_decodes_and_what_kio_encodes_we_decode(cls: type[Message], version: int) -> None:
    theirs = kio_class(cls, version)
    read, write = entity_reader(theirs), entity_writer(theirs)

    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(ours=messages(cls, version).map(lambda message: within_kio(message, version, theirs)))
    def round_trip(ours: Message) -> None:
        data = encode(ours, version)
        entity, size = read(data, 0)
        assert size == len(data)
        assert entity == to_kio(ours, version, theirs)
        out = io.BytesIO()
        write(out, entity)
        assert decode(cls, version, out.getvalue()) == ours
        assert out.getvalue() == data

    round_trip()


def kio_class(cls: type[Message], version: int) -> type:
    if (cls, version) in HEADERS:
        return HEADERS[cls, version]
    load, key = BY_CLASS[cls]
    return load(key, version)


def pairs_of(cls: type, version: int, theirs: type) -> list[tuple[Field, dataclasses.Field[object]]]:
    """Our fields of the version beside kio's; kio leaves the unit out of a name."""
    ours = [each for each in schema_of(cls).fields if each.is_in(version)]
    kios = dataclasses.fields(theirs)
    assert len(ours) == len(kios), (cls, version)
    for mine, kios_field in zip(ours, kios, strict=True):
        same = mine.name == kios_field.name or mine.name.removesuffix("_ms") == kios_field.name
        assert same or mine.name.startswith(f"{kios_field.name}_") or kios_field.name == f"{mine.name}_", (
            mine.name,
            kios_field.name,
        )
        assert mine.tag == kios_field.metadata.get("tag")
    return list(zip(ours, kios, strict=True))


def inner_class(theirs: type, name: str) -> type:
    """The entity class inside a hint such as `tuple[Entity, ...] | None`."""
    hint = typing.get_type_hints(theirs)[name]
    found = [hint]
    while found:
        one = found.pop()
        if dataclasses.is_dataclass(one):
            return typing.cast(type, one)
        found += typing.get_args(one)
    raise AssertionError(f"{theirs.__name__}.{name}")


def within_kio(message: Message, version: int, theirs: type) -> Message:
    """Limit values that kio holds as dates, durations or known error codes to kio's range."""
    for mine, kios in pairs_of(type(message), version, theirs):
        value = getattr(message, mine.name)
        kind = kios.metadata.get("kafka_type")
        if mine.struct is not None:
            for inner in value if isinstance(value, list) else [value]:
                if inner is not None:
                    within_kio(inner, version, inner_class(theirs, kios.name))
        elif kind == "error_code":
            setattr(message, mine.name, [*ErrorCode][value % len(ErrorCode)].value)
        elif kind == "datetime_i64":
            may_be_none = type(None) in typing.get_args(typing.get_type_hints(theirs)[kios.name])
            setattr(message, mine.name, -1 if may_be_none and value % 3 == 0 else value % LAST_DATE_MS)
        elif kind == "timedelta_i64":
            setattr(message, mine.name, value % (1 << 40))
    return message


def to_kio(message: Message, version: int, theirs: type) -> object:
    return theirs(
        **{
            kios.name: value_to_kio(mine, getattr(message, mine.name), version, theirs, kios)
            for mine, kios in pairs_of(type(message), version, theirs)
        }
    )


def value_to_kio(mine: Field, value: object, version: int, theirs: type, kios: dataclasses.Field[object]) -> object:
    if value is None:
        return None
    if isinstance(mine.kind, Array):
        assert isinstance(value, list)
        if mine.struct is not None:
            inner = inner_class(theirs, kios.name)
            return tuple(to_kio(each, version, inner) for each in value)
        return tuple(single_to_kio(each, kios.metadata["kafka_type"]) for each in value)
    if mine.struct is not None:
        assert isinstance(value, Message)
        return to_kio(value, version, inner_class(theirs, kios.name))
    return single_to_kio(value, kios.metadata["kafka_type"])


def single_to_kio(value: object, kind: str) -> object:
    if kind == "uuid":
        assert isinstance(value, bytes)
        return uuid.UUID(bytes=value) if any(value) else None
    if kind == "error_code":
        return KioErrorCode(value)
    if not isinstance(value, int):
        return value
    if kind.startswith("timedelta"):
        return value * MILLISECOND
    if kind == "datetime_i64":
        return EPOCH + value * MILLISECOND if value != -1 else None
    return value


def test_an_example_that_differs_would_be_seen() -> None:
    theirs = load_response_schema(3, 12)
    api = APIS[3]
    message = api.response(throttle_time_ms=7)
    entity, _ = entity_reader(theirs)(encode(message, 12), 0)
    message.throttle_time_ms = 8
    assert entity != to_kio(message, 12, theirs)


@given(st.binary(min_size=16, max_size=16))
def test_sixteen_zero_bytes_are_no_topic_id(raw: bytes) -> None:
    assert (single_to_kio(raw, "uuid") is None) == (raw == bytes(16))
