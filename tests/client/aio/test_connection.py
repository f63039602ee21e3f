"""One asyncio connection: it ends with the first request that is not answered in time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.client.aio.connection import AsyncConnection
from ottla.client.errors import RequestTimedOut
from ottla.client.model import ClientSettings, Destination
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.testing import TestBroker


def test_a_connection_whose_peer_reads_nothing_more_is_not_used_again(name: str) -> None:
    """It once stayed in use until the peer had read what was sent before, each request taking its whole time."""
    reading = threading.Event()
    part = PartitionProduceData(index=0, records=memoryview(bytes(32 << 20)))
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name=name, partition_data=[part])])

    async def story(where: Destination) -> None:
        connection = await AsyncConnection.open(where, ClientSettings())
        assert broker._loop is not None
        broker._loop.call_soon_threadsafe(reading.wait)
        with pytest.raises(RequestTimedOut):
            await connection.request(request, 9, timeout_ms=200)
        assert not connection.usable

    with TestBroker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        try:
            asyncio.run(story(Destination(host, int(port))))
        finally:
            reading.set()
