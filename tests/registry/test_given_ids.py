"""A registry whose topic was deleted, emptied or damaged gives no id a second meaning."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.registry.concurrent_writers import check_ids
from tests.registry.http_client import Http, record

from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.aio.cluster import Cluster
from ottla.client.blocking.admin import Admin
from ottla.kernel.ids import TopicPartition
from ottla.registry.given_ids import GivenIds
from ottla.registry.server import RegistryThread
from ottla.registry.service import Registry
from ottla.testing import TestBroker


def released(admin: Admin, topic: str) -> None:
    edits = {Resource(ResourceType.TOPIC, topic): [("deletion.protection", ConfigOperation.SET, "false")]}
    assert list(admin.alter_configs(edits).values()) == [None]


def delete(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        released(admin, topic)
        assert admin.delete_topics([topic]) == {topic: None}


def empty(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        released(admin, topic)
        assert admin.delete_records({TopicPartition(topic, 0): -1}) == {TopicPartition(topic, 0): 3}


def registers(bootstrap: str, topic: str, *names: str) -> list[int]:
    with RegistryThread(bootstrap, port=0, topic=topic) as running:
        http = Http(running.url)
        return [http.register(name, record(name.strip(":.").replace(":", ""), "x")).json["id"] for name in names]


@pytest.mark.parametrize("loss", [delete, empty])
def test_ids_go_on_above_those_given_after_the_topic_was_lost(
    registry_broker: TestBroker, topic: str, loss: object, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap = registry_broker.bootstrap_servers
    assert registers(bootstrap, topic, "A", "B", "C") == [1, 2, 3]
    assert not caplog.records
    loss(bootstrap, topic)  # type: ignore[operator]
    with RegistryThread(bootstrap, port=0, topic=topic) as running:
        http = Http(running.url)
        assert http("GET", "/schemas/ids/1").status == 404
        assert http.register("D", record("D", "x")).json["id"] == 4
    assert "ids through 3 were given" in caplog.text
    assert f"delete {topic}_ids too" in caplog.text


def test_ids_of_each_context_go_on_above_those_given(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    assert registers(bootstrap, topic, "A", ":.c:A", ":.c:B") == [1, 1, 2]
    delete(bootstrap, topic)
    assert registers(bootstrap, topic, "Z", ":.c:Z") == [2, 3]


def test_a_running_instance_says_that_its_topic_was_made_anew(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    with RegistryThread(bootstrap, port=0, topic=topic) as running:
        http = Http(running.url)
        assert http.register("A", record("A", "x")).json["id"] == 1
        delete(bootstrap, topic)
        assert registers(bootstrap, topic, "B", "C", "D") == [2, 3, 4]
        refused = http.register("E", record("E", "x"))
        assert (refused.status, "made anew" in str(refused.json)) == (500, True)


def test_lost_schemas_can_be_registered_again_with_their_ids(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    registers(bootstrap, topic, "A", "B")
    delete(bootstrap, topic)
    with RegistryThread(bootstrap, port=0, topic=topic) as running:
        http = Http(running.url)
        assert http("PUT", "/mode/A", {"mode": "IMPORT"}).status == 200
        assert http.register("A", record("A", "x"), id=1, version=1).json["id"] == 1
        assert http("DELETE", "/mode/A").status == 200
        assert http.register("C", record("C", "x")).json["id"] == 3


def test_the_ids_of_a_topic_that_another_registry_wrote_are_noted_at_the_start(
    registry_broker: TestBroker, topic: str
) -> None:
    bootstrap = registry_broker.bootstrap_servers
    registers(bootstrap, topic, "A", "B")
    delete(bootstrap, f"{topic}_ids")  # as with a registry that knows nothing of that topic
    assert registers(bootstrap, topic) == []
    delete(bootstrap, topic)
    assert registers(bootstrap, topic, "C") == [3]


def test_a_lower_id_that_is_noted_late_does_not_hide_a_higher_one(registry_broker: TestBroker, topic: str) -> None:
    async def noted() -> dict[str, int]:
        async with Cluster(registry_broker.bootstrap_servers) as cluster:
            slow, fast, third = (GivenIds(cluster, topic, replication_factor=1, timeout_ms=30_000) for _ in range(3))
            await slow.open()
            await fast.open()
            for number in (1, 2, 3):
                await fast.note({".": number})
            await slow.note({".": 2})
            await third.open()
            return third.greatest

    assert asyncio.run(noted()) == {".": 3}


def test_topics_of_a_registry_are_protected_under_any_name(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    registers(bootstrap, topic, "A")
    with Admin(bootstrap) as admin:
        for name in (topic, f"{topic}_ids"):
            assert "is protected" in str(admin.delete_topics([name])[name])


def test_a_damaged_schema_can_be_left_out_and_its_id_stays_its_own(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with TestBroker(directory=tmp_path) as broker:
        assert registers(broker.bootstrap_servers, topic, "A", "B") == [1, 2]
        (segment,) = tmp_path.glob(f"{topic}-0/*.log")
        with segment.open("r+b") as file:
            file.seek(segment.read_bytes().rindex(b'\\"B\\"') + 2)
            file.write(b"X")
        with (
            caplog.at_level(logging.ERROR),
            RegistryThread(broker.bootstrap_servers, port=0, topic=topic, accept_damage=True) as running,
        ):
            http = Http(running.url)
            assert http("GET", "/subjects").json == ["A"]
            assert http("GET", "/schemas/ids/1").status == 200
            assert http.register("C", record("C", "x")).json["id"] == 3
        assert "is damaged" in caplog.text and "left out" in caplog.text


def test_offsets_that_a_broker_refuses_as_damaged_can_be_left_out_too(tmp_path: Path, topic: str) -> None:
    with TestBroker(directory=tmp_path) as broker:
        assert registers(broker.bootstrap_servers, topic, "A", "B", "C") == [1, 2, 3]
    (segment,) = tmp_path.glob(f"{topic}-0/*.log")
    with segment.open("r+b") as file:
        file.seek(segment.read_bytes().index(b'\\"B\\"') + 2)
        file.write(b"X")
    (tmp_path / ".kafka_cleanshutdown").unlink()  # the next start reads the whole segment
    with (
        TestBroker(directory=tmp_path) as broker,
        RegistryThread(broker.bootstrap_servers, port=0, topic=topic, accept_damage=True) as running,
    ):
        http = Http(running.url)
        assert http("GET", "/subjects").json == ["A", "C"]
        assert http.register("D", record("D", "x")).json["id"] == 4


def test_a_decision_is_made_again_if_records_came_while_its_id_was_noted(
    registry_broker: TestBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sequence number would be that of the newer state, so the broker would let the older decision in."""
    bootstrap = registry_broker.bootstrap_servers
    note = GivenIds.note
    with RegistryThread(bootstrap, port=0, topic=topic) as slow:

        async def overtaken(self: GivenIds, ids: dict[str, int]) -> None:
            monkeypatch.setattr(GivenIds, "note", note)
            await asyncio.to_thread(registers, bootstrap, topic, "B")
            registry = slow_registry[0]
            while not registry.state.versions("B"):  # its follower reads the other instance's record
                await asyncio.sleep(0.01)
            await note(self, ids)

        slow_registry: list[Registry] = []
        write = Registry._write

        async def seen(self: Registry, decide: object) -> object:
            slow_registry.append(self)
            return await write(self, decide)  # type: ignore[arg-type]

        monkeypatch.setattr(Registry, "_write", seen)
        monkeypatch.setattr(GivenIds, "note", overtaken)
        assert Http(slow.url).register("A", record("A", "x")).json["id"] == 2
        assert sorted(check_ids(bootstrap, topic).values()) == [1, 2]
