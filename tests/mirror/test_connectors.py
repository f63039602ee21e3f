"""MirrorMaker 2's connectors in a worker of Connect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.client import Cluster, CommittedOffset, Producer, TopicPartition
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.known import connector
from ottla.connect.standalone import Standalone
from ottla.mirror.connectors import flow_of
from ottla.testing import TestBroker
from ottla.web.thread import LoopThread

ENDS = {
    "source.cluster.alias": "us", "target.cluster.alias": "eu", "source.cluster.bootstrap.servers": "us:9092",
    "target.cluster.bootstrap.servers": "eu:9092",
}  # fmt: skip


def test_a_configuration_is_a_flow_in_the_words_of_mirror_makers_file() -> None:
    flow = flow_of(ENDS | {"topics": "orders", "source.cluster.consumer.auto.offset.reset": "latest"})
    assert (flow.name, flow.source.bootstrap, flow.target.bootstrap) == ("us->eu", "us:9092", "eu:9092")
    assert flow.topics.takes("orders")
    assert flow.start == "latest"


@pytest.mark.parametrize("name", ["transforms", "value.converter", "producer.override.linger.ms"])
def test_what_would_open_batches_is_refused(name: str) -> None:
    with pytest.raises(ConfigException, match=f"{name} has no effect on a mirror"):
        flow_of(ENDS | {name: "x"})


def test_kafkas_names_find_the_connectors() -> None:
    for name in (
        "MirrorSource",
        "MirrorCheckpointConnector",
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    ):
        assert "org.apache.kafka.connect.mirror." in connector(name).java_class


def test_three_connectors_in_a_worker_mirror_topics_groups_and_heartbeats(tmp_path: Path) -> None:
    with TestBroker() as us, TestBroker() as eu:
        with Producer(us.bootstrap_servers) as producer:
            for number in range(50):
                producer.produce("orders", f"{number}", partition=0)
        ends = ENDS | {
            "source.cluster.bootstrap.servers": us.bootstrap_servers, "tasks.max": "1",
            "target.cluster.bootstrap.servers": eu.bootstrap_servers, "topics": "orders",
        }  # fmt: skip
        more = {
            "MirrorSourceConnector": {},
            "MirrorCheckpointConnector": {
                "emit.checkpoints.interval.seconds": "1", "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
            },
            "MirrorHeartbeatConnector": {},
        }  # fmt: skip
        configs = [ends | options | {"name": name, "connector.class": name} for name, options in more.items()]
        worker = {
            "bootstrap.servers": eu.bootstrap_servers, "offset.storage.file.filename": str(tmp_path / "offsets"),
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        }  # fmt: skip
        with Cluster(us.bootstrap_servers) as cluster:
            cluster.commit_offsets("readers", {TopicPartition("orders", 0): CommittedOffset(33)})

        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            standalone = Standalone(worker, configs)
            task = asyncio.create_task(standalone.run())
            yield
            standalone.stop()
            assert await task == 0

        with LoopThread("worker", opened):
            assert len(eu.records("us.orders", at_least=50)) == 50
            assert eu.records("heartbeats", at_least=1)
            with Cluster(eu.bootstrap_servers) as cluster:
                eu.wait_for(lambda: cluster.committed_offsets("readers"))
                found = cluster.committed_offsets("readers")
        assert found[TopicPartition("us.orders", 0)].offset == 33
