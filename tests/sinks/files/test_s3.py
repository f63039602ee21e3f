"""The S3 sink on moto's S3, run by a standalone worker."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.lake.store_rigs import BUCKET, MotoServer

from ottla.client import Producer
from ottla.connect.standalone import Standalone
from ottla.testing import TestBroker

STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def moto(tmp_path_factory) -> Iterator[MotoServer]:
    server = MotoServer(tmp_path_factory.mktemp("moto"))
    yield server
    server.stop()


def keys(moto):
    found = moto.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return [each["Key"] for each in found]


def test_records_of_a_topic_become_objects_and_the_group_goes_on_behind_them(moto, monkeypatch, tmp_path):
    """Options name endpoint and key, so the environment has none."""
    for name in moto.environment():
        monkeypatch.delenv(name, raising=False)
    sink = {
        "name": "out", "connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "t", "flush.size": "2",
        "s3.bucket.name": BUCKET, "s3.region": "us-east-1", "store.url": moto.url, "aws.access.key.id": "test",
        "aws.secret.access.key": "test", "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    }  # fmt: skip

    async def until(worker, count):
        standalone = Standalone(worker, [sink])
        running = asyncio.create_task(standalone.run())
        while len(await asyncio.to_thread(keys, moto)) < count:
            assert not running.done(), running.result()
            await asyncio.sleep(0.05)
        standalone.stop()
        assert await running == 0

    with TestBroker() as broker:
        worker = {
            "bootstrap.servers": broker.bootstrap_servers, "key.converter": STRING, "value.converter": STRING,
            "offset.flush.interval.ms": "50", "offset.storage.file.filename": str(tmp_path / "offsets"),
        }  # fmt: skip
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(5):
                producer.produce("t", str(number).encode(), partition=0)
        asyncio.run(until(worker, 2))
        with Producer(broker.bootstrap_servers) as producer:
            producer.produce("t", b"5", partition=0)
        asyncio.run(until(worker, 3))
    assert keys(moto) == [f"topics/t/partition=0/t+0+000000000{start}.json" for start in (0, 2, 4)]
    body = moto.client().get_object(Bucket=BUCKET, Key=keys(moto)[2])["Body"].read()
    assert body == b'"4"\n"5"\n'
