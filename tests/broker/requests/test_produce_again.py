"""The fast path of repeated Produce requests gives the same answers as the story, byte for byte."""

from __future__ import annotations

import random
import socket
import struct
import time

import pytest

from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.schema.codec import decoder, encoder
from ottla.testing import TestBroker


class Line:
    """A raw connection. `same` sends every request with one client id, so that their shapes are alike."""

    def __init__(self, address: str, *, same: bool) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.same = same
        self.sent = 0

    def ask(self, key: int, version: int, flexible: bool, body: bytes) -> bytes:
        self.sent += 1
        client = b"client-0" if self.same else b"client-%d" % (self.sent % 2)
        head = struct.pack(">hhih", key, version, self.sent, len(client)) + client + (b"\0" if flexible else b"")
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        size = struct.unpack(">i", self._receive(4))[0]
        return self._receive(size)

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data


def topic_id(line: Line, topic: str) -> bytes:
    out = bytearray()
    encoder(MetadataRequest, 12)(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), out)
    answer = line.ask(3, 12, True, bytes(out))
    response, _ = decoder(MetadataResponse, 12)(memoryview(answer), 5)
    return response.topics[0].topic_id


def a_request(draw: random.Random, version: int, topic: str, identity: bytes, sequence: int, now_ms: int) -> bytes:
    records = [Record(0, now_ms, b"k", bytes(draw.randrange(300)), ()) for _ in range(draw.randrange(1, 4))]
    producer = draw.choice([-1, 7])
    batch = bytearray(
        build_batch(
            records,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
        )
    )
    fault = draw.randrange(8)
    if fault == 0:
        batch[70 % len(batch)] ^= 0x55
    elif fault == 1:
        batch[16] = 1
    elif fault == 2:
        batch += bytes(batch)
    request = ProduceRequest(
        acks=draw.choice([1, -1]),
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="" if version >= 13 else topic,
                topic_id=identity if version >= 13 else bytes(16),
                partition_data=[PartitionProduceData(index=draw.choice([0, 0, 1, 2, 5]), records=bytes(batch))],
            )
        ],
    )
    out = bytearray()
    encoder(ProduceRequest, version)(request, out)
    return bytes(out)


@pytest.mark.parametrize("version", range(3, 14))
def test_a_repeated_request_is_answered_as_the_first(version: int):
    now_ms = int(time.time() * 1000)
    with TestBroker({"num.partitions": "3"}) as broker:
        lines = [Line(broker.bootstrap_servers, same=True), Line(broker.bootstrap_servers, same=False)]
        identities = [topic_id(line, topic) for line, topic in zip(lines, ("ta", "tb"), strict=True)]
        for step in range(60):
            sequence = step // 2
            answers = []
            for line, topic, identity in zip(lines, ("ta", "tb"), identities, strict=True):
                body = a_request(random.Random(step), version, topic, identity, sequence, now_ms)
                answer = line.ask(0, version, version >= 9, body)
                answers.append(answer.replace(identity, bytes(16)).replace(topic.encode(), b"t?"))
            assert answers[0] == answers[1], f"step {step}"
        shapes = broker.call(lambda: [channel.connection.produce_shape for listener in broker._server._listeners
                                      for channel in listener.channels])  # fmt: skip
        assert all(shapes) if version >= 5 else not any(shapes)
