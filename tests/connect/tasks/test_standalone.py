"""A standalone worker beside a broker: files into topics and topics into files."""

import asyncio
import json
import signal
import subprocess
import sys
from typing import ClassVar

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.connect import data
from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import RetriableException
from ottla.connect.plugins.base import RefusedRecords, SinkConnector, SinkTask, SourceConnector, SourceTask
from ottla.connect.records import Header, SourceRecord
from ottla.connect.rest.app import ConnectApp
from ottla.connect.standalone import Standalone, plans_of
from ottla.connect.tasks.offset_file import OffsetFile
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.task import run_task
from ottla.jobs.letters import read_letter
from ottla.jobs.states import Event, JobState
from ottla.web.exchange import Request

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def worker(bootstrap, tmp_path):
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "50",
    }


def source(name, path, **more):
    return {"name": name, "connector.class": "FileStreamSource", "file": str(path), "topic": name, **more}


def sink(name, topic, path, **more):
    return {"name": f"{name}-out", "connector.class": "FileStreamSink", "file": str(path), "topics": topic, **more}


async def until(holds, *tasks):
    """Wait for a condition, unless one of the tasks ends."""
    while not holds():
        for task in tasks:
            assert not task.done(), task.result()
        await asyncio.sleep(0.02)


async def ended(standalone, holds):
    """Run until a condition holds, then stop; the exit status."""
    running = asyncio.create_task(standalone.run())
    await until(holds, running)
    standalone.stop()
    return await running


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def values(bootstrap, topic, count):
    with Consumer(bootstrap, group_id=f"{topic}-check", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        found = []
        while len(found) < count:
            found += consumer.poll(1_000)
        return found


def test_lines_go_through_a_topic_into_a_file_with_transformations(worker, tmp_path, name):
    read, written = tmp_path / "in", tmp_path / "out"
    read.write_text("Grüße\ncat\nnot yet")
    hoist = {
        "transforms": "h",
        "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.h.field": "line",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    standalone = Standalone(worker, [source(name, read, **hoist), sink(name, name, written)])
    assert asyncio.run(ended(standalone, lambda: len(lines(written)) == 2)) == 0
    assert lines(written) == ['{"line":"Grüße"}', '{"line":"cat"}']
    kept = json.loads((tmp_path / "offsets").read_text())
    assert kept == [[[name, {"filename": str(read)}], {"position": 12}]]


def test_a_worker_goes_on_behind_the_lines_that_are_in_the_topic(worker, tmp_path, name):
    read, written = tmp_path / "in", tmp_path / "out"
    read.write_text("Grüße\n")
    configs = [source(name, read), sink(name, name, written)]
    asyncio.run(ended(Standalone(worker, configs), lambda: len(lines(written)) == 1))
    with read.open("a") as file:
        file.write("cat\n")
    asyncio.run(ended(Standalone(worker, configs), lambda: len(lines(written)) == 2))
    assert lines(written) == ["Grüße", "cat"]


def test_a_worker_killed_before_it_kept_its_offsets_loses_no_line(worker, bootstrap, tmp_path, name):
    read = tmp_path / "in"
    read.write_text("".join(f"{number}\n" for number in range(500)))
    files = [tmp_path / "worker.properties", tmp_path / "source.properties"]
    files[0].write_text(
        "".join(f"{key}={value}\n" for key, value in {**worker, "offset.flush.interval.ms": "600000"}.items())
    )
    files[1].write_text("".join(f"{key}={value}\n" for key, value in source(name, read, **{"batch.size": "7"}).items()))
    command = [sys.executable, "-m", "ottla.cli.main", "connect", "start", *map(str, files)]
    first = subprocess.Popen(command)
    try:
        assert values(bootstrap, name, 100)
    finally:
        first.kill()
        first.wait()
    assert not (tmp_path / "offsets").exists()
    second = subprocess.Popen(command)
    try:
        with read.open("a") as file:
            file.write("last\n")
        with Consumer(bootstrap, group_id=f"{name}-all", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([name])
            found: list[bytes | None] = []
            while b"last" not in found:
                found += [record.value for record in consumer.poll(1_000)]
        second.send_signal(signal.SIGTERM)
        assert second.wait() == 0
    finally:
        second.kill()
    assert {int(value) for value in found if value != b"last"} == set(range(500))
    kept = json.loads((tmp_path / "offsets").read_text())
    assert kept[0][1] == {"position": read.stat().st_size}


def test_a_bad_record_becomes_a_dead_letter_and_the_others_are_written(worker, bootstrap, tmp_path, name):
    with Producer(bootstrap) as producer:
        for value in (b'{"a":1}', b"{", b'{"a":2}'):
            producer.produce(name, value, key=b"k", headers=[("h", b"1")])
    written = tmp_path / "out"
    options = {
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    standalone = Standalone(worker, [sink(name, name, written, **options)])
    assert asyncio.run(ended(standalone, lambda: len(lines(written)) == 2)) == 0
    assert lines(written) == ["{a=1}", "{a=2}"]
    letter = values(bootstrap, f"{name}-dead", 1)[0]
    assert (letter.key, letter.value) == (b"k", b"{")
    read = read_letter(letter.headers)
    assert read.headers == (("h", b"1"),)
    assert (read.cause.topic, read.cause.offset, read.cause.stage) == (name, 1, "VALUE_CONVERTER")
    assert read.cause.at_class == JSON
    assert read.cause.exception == "org.apache.kafka.connect.errors.DataException"


def test_a_bad_record_ends_the_task_without_tolerance_and_is_not_committed(worker, bootstrap, tmp_path, name):
    with Producer(bootstrap) as producer:
        producer.produce(name, b"{")
    options = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    standalone = Standalone(worker, [sink(name, name, tmp_path / "out", **options)])
    assert asyncio.run(standalone.run()) == 1
    fault = standalone.tasks[0].status.fault
    assert fault is not None
    assert f"VALUE_CONVERTER refused the record {name}-0 at offset 0" in fault.reason


class Numbers(SourceConnector):
    """Reads three numbers, of which one is a set, which no converter takes; then there is nothing more."""

    java_class = "org.example.NumbersConnector"
    version = "1"
    committed: ClassVar[list] = []
    acknowledged: ClassVar[list] = []

    @classmethod
    def options(cls):
        return ConfigDef()

    @classmethod
    def task(cls, config):
        return NumbersTask(config["name"])


class NumbersTask(SourceTask):
    def __init__(self, topic):
        self.topic, self.next = topic, 0

    async def read(self):
        if self.next == 3:
            return None
        self.next += 1
        value = {1, 2} if self.next == 2 else self.next
        return [SourceRecord(self.topic, value=value, source_partition={"p": 1}, source_offset={"n": self.next})]

    async def commit(self, offsets):
        Numbers.committed += offsets

    def acknowledged(self, records):
        Numbers.acknowledged += [each.source_offset["n"] for each in records]


def test_a_refused_source_record_is_a_dead_letter_and_its_offset_is_kept(worker, bootstrap, tmp_path, name):
    config = {
        "name": name,
        "connector.class": "Numbers",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    Numbers.committed.clear()
    Numbers.acknowledged.clear()
    task = run_task(
        TaskPlan(name, 0, Numbers, config, config, worker), OffsetFile(worker["offset.storage.file.filename"])
    )
    assert asyncio.run(task.run()) == 0
    assert [record.value for record in values(bootstrap, name, 2)] == [b"1", b"3"]
    assert Numbers.committed[-1] == ({"p": 1}, {"n": 3})
    assert Numbers.acknowledged == [1, 2, 3]
    letter = values(bootstrap, f"{name}-dead", 1)[0]
    assert ("ottla.source.offset", b'{"n": 2}') in letter.headers


class Picky(SinkConnector):
    """Takes records at the second attempt, but never those that say no."""

    java_class = "org.example.PickyConnector"
    version = "1"
    taken: ClassVar[list] = []
    attempts = 0

    @classmethod
    def options(cls):
        return ConfigDef()

    @classmethod
    def task(cls, config):
        return PickyTask()


class PickyTask(SinkTask):
    async def put(self, records):
        Picky.attempts += 1
        if Picky.attempts == 1:
            raise RetriableException("the other side is away")
        Picky.taken += [record.value for record in records if record.value != "no"]
        refused = [(record, ValueError("it says no")) for record in records if record.value == "no"]
        if refused:
            raise RefusedRecords(refused)


def test_a_sink_puts_again_later_and_refuses_single_records(worker, bootstrap, tmp_path, name):
    with Producer(bootstrap) as producer:
        for value in (b"yes", b"no", b"also"):
            producer.produce(name, value)
    config = {
        "name": name,
        "connector.class": "Picky",
        "topics": name,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    Picky.taken.clear()
    Picky.attempts = 0
    task = run_task(
        TaskPlan(name, 0, Picky, config, config, worker), OffsetFile(worker["offset.storage.file.filename"])
    )

    async def story():
        running = asyncio.create_task(task.run())
        await until(lambda: len(Picky.taken) == 2, running)
        task.ask(Event.STOP)
        return await running

    assert asyncio.run(story()) == 0
    assert Picky.taken == ["yes", "also"]
    assert values(bootstrap, f"{name}-dead", 1)[0].value == b"no"


def test_a_paused_source_reads_nothing_and_goes_on_where_it_was(worker, bootstrap, tmp_path, name):
    read = tmp_path / "in"
    read.write_text("one\n")
    offsets = OffsetFile(worker["offset.storage.file.filename"])
    task = run_task(plans_of(worker, source(name, read))[0], offsets)

    async def story():
        running = asyncio.create_task(task.run())
        while not await offsets.all(name):
            await asyncio.sleep(0.02)
        task.ask(Event.PAUSE)
        await until(lambda: task.status.state is JobState.PAUSED, running)
        with read.open("a") as file:
            file.write("two\n")
        task.ask(Event.RESUME)
        while (await offsets.all(name))[0][1] != {"position": 8}:
            await asyncio.sleep(0.02)
        task.ask(Event.STOP)
        return await running

    assert asyncio.run(story()) == 0
    assert [record.value for record in values(bootstrap, name, 2)] == [b"one", b"two"]


def test_no_offset_is_kept_behind_a_line_that_its_topic_refuses(worker, bootstrap, tmp_path, name):
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1, configs={"max.message.bytes": "1000"})
    read = tmp_path / "in"
    read.write_text("one\n" + "x" * 5_000 + "\nthree\n")
    offsets = OffsetFile(worker["offset.storage.file.filename"])
    task = run_task(plans_of(worker, source(name, read))[0], offsets)
    assert asyncio.run(task.run()) == 1
    kept = asyncio.run(offsets.all(name))
    assert kept in ([], [({"filename": str(read)}, {"position": 4})])
    fault = task.status.fault
    assert fault is not None
    assert "KAFKA_PRODUCE refused the record" in fault.reason


def test_tasks_of_a_sink_share_the_partitions_and_all_offsets_are_committed(worker, bootstrap, tmp_path, name):
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=4)
    config = {"name": f"{name}-out", "connector.class": "Picky", "topics": name}
    Picky.taken.clear()
    Picky.attempts = 1
    offsets = OffsetFile(worker["offset.storage.file.filename"])
    plans = [TaskPlan(f"{name}-out", number, Picky, config, config, worker) for number in range(2)]
    first, second = [run_task(plan, offsets) for plan in plans]

    def write(values):
        with Producer(bootstrap) as producer:
            for value in values:
                producer.produce(name, str(value), partition=value % 4)

    async def story():
        runs = [asyncio.create_task(first.run())]
        write(range(40))
        await until(lambda: len(set(Picky.taken)) == 40, *runs)
        runs.append(asyncio.create_task(second.run()))
        write(range(40, 80))
        await until(lambda: len(set(Picky.taken)) == 80, *runs)
        for task in (first, second):
            task.ask(Event.STOP)
        return await asyncio.gather(*runs)

    assert asyncio.run(story()) == [0, 0]
    partitions = [TopicPartition(name, number) for number in range(4)]
    with Consumer(bootstrap, group_id=f"connect-{name}-out") as consumer:
        committed = consumer.committed(partitions)
    assert {partition: at.offset for partition, at in committed.items()} == dict.fromkeys(partitions, 20)


def test_a_source_makes_its_topic_as_its_options_say(worker, bootstrap, tmp_path, name):
    read, written = tmp_path / "in", tmp_path / "out"
    read.write_text("one\n")
    sizes = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"}
    standalone = Standalone(worker, [source(name, read, **sizes), sink(name, name, written)])
    assert asyncio.run(ended(standalone, lambda: lines(written) == ["one"])) == 0
    with Admin(bootstrap) as admin:
        assert len(admin.cluster.partitions(name)) == 3


def test_a_bad_line_of_a_directory_is_a_dead_letter_and_its_file_is_archived(worker, bootstrap, tmp_path, name):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,name\n1,one\n2\n3,three\n")
    config = {
        "name": name, "connector.class": "DirectorySource", "topic": name, "format": "csv", "poll.interval.ms": "20",
        "input.directory": str(tmp_path / "in"), "after": "archive", "archive.directory": str(tmp_path / "old"),
        "value.converter": JSON, "value.converter.schemas.enable": "false", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }  # fmt: skip
    standalone = Standalone(worker, [config])
    assert asyncio.run(ended(standalone, (tmp_path / "old" / "a.csv").exists)) == 0
    found = values(bootstrap, name, 2)
    assert [each.value for each in found] == [b'{"id":"1","name":"one"}', b'{"id":"3","name":"three"}']
    assert [each.value for each in values(bootstrap, f"{name}-dead", 1)] == [b"2\n"]


class Mixed(SourceConnector):
    """Reads records with keys, headers, partitions and two topics, in this order."""

    java_class = "org.example.MixedConnector"
    version = "1"
    read: ClassVar[list] = []

    @classmethod
    def options(cls):
        return ConfigDef()

    @classmethod
    def task(cls, config):
        return MixedTask()


class MixedTask(SourceTask):
    async def read(self):
        made, Mixed.read = Mixed.read, []
        return made or None


def test_records_of_one_read_with_keys_headers_and_partitions_keep_their_order(worker, bootstrap, name):
    topics = [name, f"{name}-other"]
    with Admin(bootstrap) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=3)
    Mixed.read = [
        SourceRecord(topics[number % 7 == 0], partition=1 if number % 5 == 0 else None, key_schema=data.STRING,
                     key=f"k{number % 2}", value_schema=data.STRING, value=str(number), timestamp=number,
                     headers=(Header("h", data.STRING, "x"),) if number % 3 == 0 else ())
        for number in range(60)
    ]  # fmt: skip
    wanted = {str(number): (number, number % 3 == 0, topics[number % 7 == 0]) for number in range(60)}
    config = {"name": name, "connector.class": "Mixed"}
    offsets = OffsetFile(worker["offset.storage.file.filename"])
    assert asyncio.run(run_task(TaskPlan(name, 0, Mixed, config, config, worker), offsets).run()) == 0
    count = sum(topic == name for _, _, topic in wanted.values())
    found = [*values(bootstrap, name, count), *values(bootstrap, topics[1], 60 - count)]
    assert {record.value.decode(): (record.timestamp, bool(record.headers), record.topic) for record in found} == wanted
    by_place = {}
    for record in found:
        by_place.setdefault((record.topic, record.partition), []).append(int(record.value))
        if int(record.value) % 5 == 0:
            assert record.partition == 1
    assert all(each == sorted(each) for each in by_place.values())


async def called(app, method, path, body=None):
    """The status and the body of an answer."""
    headers = {"host": "alone:1", "content-type": "application/json"}
    content = b"" if body is None else json.dumps(body).encode()
    answer = await app(Request(method, path, "", headers, content))
    return answer.status, json.loads(answer.body) if answer.body else None


def test_calls_to_a_worker_alone_begin_stop_and_delete_connectors_at_once(
    worker, bootstrap, tmp_path, name, monkeypatch
):
    monkeypatch.setenv("OTTLA_TEST_FILE", str(tmp_path / "in"))
    (tmp_path / "in").write_text("one\ntwo\n")
    providers = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    config = source(name, "${env:OTTLA_TEST_FILE}")

    async def story():
        standalone = Standalone(worker | providers, [], "alone:1")
        app, running = ConnectApp(standalone), asyncio.create_task(standalone.serve())
        await until(lambda: standalone.cluster_id, running)
        own = {"name": name, "config": config | {"offsets.storage.topic": "own"}}
        status, said = await called(app, "POST", "/connectors", own)
        assert (status, said["message"].split(":")[0]) == (400, "offsets.storage.topic")
        status, made = await called(app, "POST", "/connectors", {"name": name, "config": config})
        assert (status, made["tasks"]) == (201, [{"connector": name, "task": 0}])
        assert made["config"]["file"] == "${env:OTTLA_TEST_FILE}"
        while (await called(app, "GET", f"/connectors/{name}/offsets"))[1]["offsets"] == []:
            await asyncio.sleep(0.02)
        assert (await called(app, "GET", f"/connectors/{name}/topics"))[1] == {name: {"topics": [name]}}
        told = (await app(Request("GET", "/metrics", "", {"accept": "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"}))).body
        task = f'{{connector="{name}",task="0"}}'
        assert f"kafka_connect_source_task_source_record_poll_total{task} 2" in told.decode()
        assert f"kafka_connect_source_task_source_record_write_total{task} 2" in told.decode()
        assert f'ottla_job_state{{job="{name}-0",state="running"}} 1' in told.decode()
        assert (await called(app, "PUT", f"/connectors/{name}/stop"))[0] == 204
        shown = (await called(app, "GET", f"/connectors/{name}/status"))[1]
        assert (shown["connector"]["state"], shown["tasks"]) == ("STOPPED", [])
        offsets = (await called(app, "GET", f"/connectors/{name}/offsets"))[1]
        assert offsets == {"offsets": [{"partition": {"filename": str(tmp_path / "in")}, "offset": {"position": 8}}]}
        assert (await called(app, "DELETE", f"/connectors/{name}/offsets"))[0] == 200
        assert (await called(app, "PUT", f"/connectors/{name}/resume"))[0] == 202
        assert len(await asyncio.to_thread(values, bootstrap, name, 4)) == 4
        assert (await called(app, "DELETE", f"/connectors/{name}"))[0] == 204
        assert (await called(app, "GET", f"/connectors/{name}/status"))[0] == 404
        standalone.stop()
        return await running

    assert asyncio.run(story()) == 0


def test_a_connector_that_makes_no_tasks_is_failed_and_shows_no_secret(worker, name, monkeypatch):
    monkeypatch.setenv("OTTLA_TEST_KIND", "s3cret")
    providers = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    config = {"connector.class": "JdbcSource", "connection.url": "jdbc:${env:OTTLA_TEST_KIND}:x", "topic.prefix": name,
              "mode": "bulk"}  # fmt: skip

    async def story():
        standalone = Standalone(worker | providers, [], "alone:1")
        app, running = ConnectApp(standalone), asyncio.create_task(standalone.serve())
        status, said = await called(app, "PUT", f"/connectors/{name}/config", config)
        assert (status, said["message"]) == (500, f"Failed to transition connector {name} to state STARTED")
        shown = (await called(app, "GET", f"/connectors/{name}/status"))[1]
        assert shown["connector"]["state"] == "FAILED"
        assert "s3cret" not in shown["connector"]["trace"]
        assert "jdbc:${env:OTTLA_TEST_KIND} is unknown" in shown["connector"]["trace"]
        standalone.stop()
        await running

    asyncio.run(story())
