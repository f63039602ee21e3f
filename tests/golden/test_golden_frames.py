"""Bytes that real clients and Apache Kafka 4.3.1 wrote, decoded and encoded to the same bytes.

Captured by tools/capture_frames.py while tests/golden/sessions.py ran; the clients were aiokafka 0.14.0,
confluent-kafka 2.16.1 (librdkafka), kafka-python 3.0.12 as itself and as for three older brokers, and Apache Kafka's
command-line tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.messages import group_records
from ottla.messages.api_versions import ApiVersionsResponse
from ottla.messages.headers import RequestHeader, ResponseHeader
from ottla.schema.codec import decode, decoder, encode, encoder
from ottla.wire.apis import APIS

HERE = Path(__file__).parent
OF_TRANSACTIONS = {
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeTransactions",
    "ListTransactions",
}
OF_CLIENT_METRICS = {"GetTelemetrySubscriptions", "PushTelemetry"}
"""Apache Kafka announces them only with a plugin that takes the metrics."""
NEVER_CAPTURED = {
    "AlterUserScramCredentials",
    "AlterClientQuotas",
    "CreateDelegationToken",
    "DescribeClientQuotas",
    "DescribeDelegationToken",
    "ExpireDelegationToken",
    "RenewDelegationToken",
    "CreateAcls",
    "DeleteAcls",
    "DescribeAcls",
    "DescribeUserScramCredentials",
    "OffsetForLeaderEpoch",
    "AlterReplicaLogDirs",
    "AlterPartitionReassignments",
    "UnregisterBroker",
    "UpdateFeatures",
    "ConsumerGroupHeartbeat",
    *OF_TRANSACTIONS,
    *OF_CLIENT_METRICS,
}
"""APIs that a single broker without transactions, users, ACLs and changes of leaders does not receive."""


class Frame(NamedTuple):
    client: str
    key: int
    version: int
    direction: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.client}-{APIS[self.key].name}-v{self.version}-{self.direction}"


def frames() -> Iterator[Frame]:
    for path in sorted((HERE / "frames").glob("*.txt")):
        for line in path.read_text().splitlines():
            client, key, version, direction, data = line.split(" ")
            yield Frame(client, int(key), int(version), direction, bytes.fromhex(data))


FRAMES = list(frames())


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_a_captured_frame_is_decoded_and_encoded_to_the_same_bytes(frame: Frame) -> None:
    api, view = APIS[frame.key], memoryview(frame.data)
    if frame.direction == "request":
        header_class, header_version = RequestHeader, api.request_header_version(frame.version)
        decode_body, encode_body = api.request_decoder(frame.version), api.request_encoder(frame.version)
    else:
        header_class, header_version = ResponseHeader, api.response_header_version(frame.version)
        decode_body, encode_body = api.response_decoder(frame.version), api.response_encoder(frame.version)
    header, position = decoder(header_class, header_version)(view, 0)
    body, end = decode_body(view, position)
    assert end == len(view)
    out = bytearray()
    encoder(header_class, header_version)(header, out)
    encode_body(body, out)
    assert out == frame.data
    if isinstance(header, RequestHeader):
        assert (header.request_api_key, header.request_api_version) == (frame.key, frame.version)


def test_four_clients_were_captured_and_every_api_that_one_broker_is_asked_for() -> None:
    assert {frame.client for frame in FRAMES} == {"aiokafka", "confluent-kafka", "kafka-python", "java"}
    for direction in ("request", "response"):
        captured = {APIS[frame.key].name for frame in FRAMES if frame.direction == direction}
        assert {api.name for api in APIS.values() if not api.peers_only} - captured == NEVER_CAPTURED


def test_we_announce_what_apache_kafka_announced() -> None:
    answers = [frame for frame in FRAMES if (frame.key, frame.version, frame.direction) == (18, 4, "response")]
    assert answers
    for frame in answers:
        answer = decode(ApiVersionsResponse, 4, frame.data[4:])
        common = {key: api for key, api in APIS.items() if not api.peers_only and api.name not in OF_CLIENT_METRICS}
        ours = {key: tuple(api.announced) for key, api in common.items()}
        theirs = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert {key: theirs.get(key) for key in ours} == ours


def test_what_apache_kafka_wrote_into_consumer_offsets_comes_back_byte_for_byte() -> None:
    keys = {
        group_records.OFFSET_COMMIT_TYPE: (group_records.OffsetCommitKey, group_records.OffsetCommitValue),
        group_records.GROUP_METADATA_TYPE: (group_records.GroupMetadataKey, group_records.GroupMetadataValue),
    }
    versions: set[tuple[str, int]] = set()
    for line in (HERE / "group_records.txt").read_text().splitlines():
        key, value = line.split(" ")
        key_bytes = bytes.fromhex(key)
        key_class, value_class = keys[int.from_bytes(key_bytes[:2], "big")]
        assert encode(decode(key_class, 0, key_bytes[2:]), 0) == key_bytes[2:]
        if value != "null":
            value_bytes = bytes.fromhex(value)
            version = int.from_bytes(value_bytes[:2], "big")
            versions.add((value_class.__name__, version))
            assert encode(decode(value_class, version, value_bytes[2:]), version) == value_bytes[2:]
    assert versions == {("OffsetCommitValue", 4), ("GroupMetadataValue", 3)}
