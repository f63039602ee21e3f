"""Several instances on one topic: concurrent writers, killed ones, stale ones, other registries' records."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
from pathlib import Path

import pytest
import urllib3
from tests.registry.concurrent_writers import Writers, a_stale_append, check_ids, free_of_rules, log_of
from tests.registry.http_client import Http, record
from tests.registry.registry_process import RegistryProcess

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.jobs.state_topic import PRODUCER_ID, NextAppend
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.registry import decide
from ottla.registry.decide import SchemaProposal
from ottla.registry.server import RegistryThread
from ottla.registry.service import Registry
from ottla.testing import TestBroker


def test_concurrent_instances_agree_on_ids(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    with RegistryProcess(bootstrap, topic) as one, RegistryProcess(bootstrap, topic) as two:
        free_of_rules(one.url)
        writers = Writers(lambda: [one.url, two.url], schemas=20, threads=4)
        writers.run()
        assert one.stop() == 0
        assert two.stop() == 0
    ids = check_ids(bootstrap, topic)
    assert len(ids) == 20
    assert {text: {number} for text, number in ids.items()} == dict(writers.told)
    assert sorted(ids.values()) == list(range(1, 21))


@pytest.mark.slow
def test_killed_instances_do_no_harm(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    running = [RegistryProcess(bootstrap, topic), RegistryProcess(bootstrap, topic)]
    try:
        free_of_rules(running[0].url)
        writers = Writers(lambda: [each.url for each in running], schemas=30, threads=4)
        writing = threading.Thread(target=writers.run)
        writing.start()
        chance = random.Random(5)
        kills = 0
        while writing.is_alive() and kills < 8:
            writing.join(chance.uniform(0.05, 0.3))
            index = chance.randrange(2)
            running[index].kill()
            running[index].process.stdout.close()  # type: ignore[union-attr]
            running[index] = RegistryProcess(bootstrap, topic)
            kills += 1
        writing.join(90)
        assert not writers.faults
        assert kills >= 1
    finally:
        for each in running:
            each.kill()
            each.process.stdout.close()  # type: ignore[union-attr]
    ids = check_ids(bootstrap, topic)
    assert {text: {number} for text, number in ids.items()} == dict(writers.told)
    assert len(ids) == 30


def test_a_kill_between_write_and_read_back_loses_nothing(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    with RegistryProcess(bootstrap, topic, dies_before_read_back=True) as doomed:
        with pytest.raises(urllib3.exceptions.HTTPError):
            Http(doomed.url).register("a", record("R", "x"))
        assert doomed.process.wait(120) == -signal.SIGKILL
    assert list(check_ids(bootstrap, topic).values()) == [1]
    with RegistryProcess(bootstrap, topic) as next_one:
        http = Http(next_one.url)
        assert http("GET", "/subjects/a/versions").json == [1]
        assert http.register("a", record("R", "x")).json["id"] == 1
        assert http.register("b", record("S", "x")).json["id"] == 2
    assert len(check_ids(bootstrap, topic)) == 2


def test_a_writer_that_stood_still_is_refused(registry_broker: TestBroker, topic: str) -> None:
    asyncio.run(a_stale_append(registry_broker.bootstrap_servers, topic))
    assert sorted(check_ids(registry_broker.bootstrap_servers, topic).values()) == [1, 2, 3, 4, 5]


def test_a_writer_whose_place_the_broker_does_not_accept_begins_an_epoch(
    registry_broker: TestBroker, topic: str
) -> None:
    bootstrap = registry_broker.bootstrap_servers

    async def scene() -> None:
        async with Registry(bootstrap, topic=topic) as registry:
            await registry.write(lambda state: decide.register(state, "a", SchemaProposal('"int"')))
            ahead = build_batch(
                [Record(0, 0, b'{"keytype":"NOOP","magic":0}', None)],
                producer_id=PRODUCER_ID,
                producer_epoch=3,
                base_sequence=0,
            )
            with Cluster(bootstrap) as cluster:
                cluster.produce(topic, 0, ahead)
            await registry.topic.catch_up()
            registry.topic._place = NextAppend(3, 77)
            value = await registry.write(lambda state: decide.register(state, "b", SchemaProposal('"long"')))
            assert value.id == 2
            assert registry.topic._place.epoch == 4

    asyncio.run(scene())


def test_a_restart_finds_everything_again(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    paths = ("/subjects", "/schemas", "/config/a", "/mode/b", "/contexts", "/schemas?deleted=true")
    with RegistryThread(bootstrap, port=0, topic=topic) as first:
        http = Http(first.url)
        http.register("a", record("R", "x"))
        http.register("b", record("S", "x"))
        http.register(":.lab:c", record("S", "x"))
        http("PUT", "/config/a", {"compatibility": "FULL"})
        http("PUT", "/mode/b", {"mode": "READONLY"})
        http("DELETE", "/subjects/a/versions/1")
        before = [http("GET", path).json for path in paths]
    with RegistryThread(bootstrap, port=0, topic=topic) as second:
        assert [Http(second.url)("GET", path).json for path in paths] == before


def test_one_instance_sees_what_another_wrote(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    with RegistryThread(bootstrap, port=0, topic=topic) as one, RegistryThread(bootstrap, port=0, topic=topic) as two:
        for number in range(5):
            made = Http(one.url).register(f"s{number}", record(f"R{number}", "x")).json["id"]
            assert Http(two.url)("GET", f"/schemas/ids/{made}").status == 200


def test_compaction_leaves_the_same_registry(topic: str, tmp_path: Path) -> None:
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "internal.segment.bytes": "8000"}
    with TestBroker({"log.cleaner.backoff.ms": "100"}, directory=tmp_path) as broker:
        bootstrap = broker.bootstrap_servers
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, 1, 1, configs)
        with RegistryThread(bootstrap, port=0, topic=topic) as running:
            http = Http(running.url)
            for number in range(10):
                http.register(f"s{number}", record(f"R{number}", "x"))
            for round_number in range(80):
                http("PUT", "/config/s1", {"compatibility": "FULL" if round_number % 2 else "NONE"})
            http("DELETE", "/subjects/s2")
            http("DELETE", "/subjects/s2?permanent=true")
            before = [http("GET", path).json for path in ("/schemas?deleted=true", "/config/s1")]
            kept = _compacted(bootstrap, topic)
        assert sum(b"CONFIG" in (each.key or b"") for each in kept) < 80
        with RegistryThread(bootstrap, port=0, topic=topic) as again:
            http = Http(again.url)
            assert [http("GET", path).json for path in ("/schemas?deleted=true", "/config/s1")] == before
            assert http.register("new", record("New", "x")).json["id"] == 11


def _compacted(bootstrap: str, topic: str) -> list[Record]:
    """The topic's records after its compaction."""
    wait = threading.Event()
    for _ in range(600):
        found = log_of(bootstrap, topic)
        if found[-1].offset + 1 > len(found) + 20:
            return found
        wait.wait(0.1)
    raise AssertionError("the topic was not compacted")


BY_HAND: list[tuple[bytes, bytes | None]] = [
    (b'{"keytype":"NOOP","magic":0}', None),
    (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        b'{"subject":"orders-value","version":1,"id":41,"schema":"{\\"type\\":\\"record\\",\\"name\\":\\"R\\",'
        b'\\"fields\\":[{\\"name\\":\\"x\\",\\"type\\":\\"int\\"}]}","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"gone","version":1,"magic":1}',
        b'{"subject":"gone","version":1,"id":42,"md5":"CV1xzxJVa51eMwrVdbPfXQ==","schema":"\\"string\\"","deleted":false}',
    ),
    (b'{"keytype":"DELETE_SUBJECT","subject":"gone","magic":0}', b'{"subject":"gone","version":1}'),
    (b'{"keytype":"MODE","subject":"gone","magic":0}', b'{"subject":"gone","mode":"READONLY"}'),
    (b'{"keytype":"SOMETHING_NEW","magic":9}', b"{}"),
    (b"not json", b"at all"),
    (
        b'{"keytype":"SCHEMA","subject":"odd","version":1,"magic":1}',
        b'{"subject":"odd","version":1,"id":9,"metadata":{"tags":5},"schema":"\\"int\\"","deleted":false}',
    ),
]


def test_records_of_another_registry_are_taken_over(registry_broker: TestBroker, topic: str) -> None:
    bootstrap = registry_broker.bootstrap_servers
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, 1, 1, {"cleanup.policy": "compact"})
        admin.cluster.produce(topic, 0, build_batch([Record(0, 0, key, value) for key, value in BY_HAND]))
    with RegistryThread(bootstrap, port=0, topic=topic) as running:
        http = Http(running.url)
        assert http("GET", "/subjects").json == ["orders-value"]
        assert http("GET", "/schemas/ids/42").json["schema"] == '"string"'
        assert http("GET", "/config").json == {"compatibilityLevel": "FULL"}
        assert http("GET", "/mode/gone").json == {"mode": "READONLY"}
        assert http.register("orders-value", json.dumps(record("R", "x"), indent=1)).json["id"] == 41
        assert http.register("new", record("New", "x")).json["id"] == 43
    last = log_of(bootstrap, topic)[-1]
    assert last.key == b'{"keytype":"SCHEMA","subject":"new","version":1,"magic":1}'


def test_an_unfit_topic_is_refused(registry_broker: TestBroker, topic: str) -> None:
    from ottla.jobs.state_topic_setup import UnusableTopic

    bootstrap = registry_broker.bootstrap_servers
    with Admin(bootstrap) as admin:
        admin.create_topic(f"{topic}-wide", 2, 1, {"cleanup.policy": "compact"})
        admin.create_topic(f"{topic}-short", 1, 1, {"cleanup.policy": "delete"})
    with pytest.raises(UnusableTopic, match="2 partitions"):
        RegistryThread(bootstrap, port=0, topic=f"{topic}-wide").start()
    with pytest.raises(UnusableTopic, match=r"cleanup\.policy"):
        RegistryThread(bootstrap, port=0, topic=f"{topic}-short").start()


def test_a_damaged_topic_is_refused(tmp_path: Path, topic: str) -> None:
    """Else a schema would be handed out with another letter in it, or be missing."""
    from ottla.jobs.state_topic_setup import UnusableTopic

    with TestBroker(directory=tmp_path) as broker:
        with RegistryThread(broker.bootstrap_servers, port=0, topic=topic) as running:
            assert Http(running.url).register("a", record("R", "xyzzy")).status == 200
        (segment,) = tmp_path.glob(f"{topic}-0/*.log")
        with segment.open("r+b") as file:
            file.seek(segment.read_bytes().index(b"xyzzy"))
            file.write(b"w")
        with pytest.raises(UnusableTopic, match="is damaged"):
            RegistryThread(broker.bootstrap_servers, port=0, topic=topic).start()


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    from ottla.cli.registry import command

    assert command(["start", "-b", "127.0.0.1:1", "--port", "0"]) == 1
    assert "cannot start" in capsys.readouterr().err
