"""Distributed workers on a real broker: calls to any, work shared out, and taken over from one that dies."""

import asyncio
import contextlib
import itertools

import pytest

from ottla.connect.machine.decide import create, delete, set_target
from ottla.connect.machine.records import Target
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.worker import Worker, WorkerSettings
from ottla.testing import TestBroker

_names = itertools.count()
_WAIT_S = 90


@pytest.fixture(scope="module")
def broker():
    with TestBroker() as running:
        yield running


@pytest.fixture
def settings(broker):
    number = next(_names)
    return WorkerSettings(
        broker.bootstrap_servers, f"group-{number}", f"configs-{number}", f"status-{number}", 2, f"offsets-{number}", 2,
        session_timeout_ms=6_000, heartbeat_interval_ms=500, properties={"offset.flush.interval.ms": "100"},
    )  # fmt: skip


async def until(true):
    """Wait for a condition."""
    async with asyncio.timeout(_WAIT_S):
        while not true():
            await asyncio.sleep(0.05)


def lines(file, topic):
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}


async def made(worker, name, config, target=Target.STARTED):
    await worker.write(lambda: create(worker.configs, worker.view, name, config, target))


def state(worker, name):
    found = worker.statuses.connectors.get(name)
    return (found and found.state, {number: each.state for number, each in worker.statuses.tasks(name).items()})


def values(broker, topic):
    return sorted(record.value.decode() for record in broker.records(topic))


def test_a_worker_runs_pauses_stops_and_deletes_a_connector(broker, settings, tmp_path):
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")

    async def story():
        async with Worker(settings, "a:1") as worker:
            await made(worker, "src", lines(file, "story"))
            await until(lambda: state(worker, "src") == ("RUNNING", {0: "RUNNING"}))
            found = worker.configs.get("src")
            await until(lambda: worker._shared._table.all("src"))
            assert await worker.offsets(found) == [
                {"partition": {"filename": str(file)}, "offset": {"position": 8}},
            ]
            with pytest.raises(CallRefused, match="must be in the STOPPED state"):
                await worker.alter_offsets(found, None)
            await worker.write(lambda: set_target(worker.configs, "src", Target.PAUSED))
            await until(lambda: state(worker, "src") == ("PAUSED", {0: "PAUSED"}))
            await worker.write(lambda: set_target(worker.configs, "src", Target.STOPPED))
            await until(lambda: state(worker, "src") == ("STOPPED", {}))
            await worker.alter_offsets(worker.configs.get("src"), None)
            assert await worker.offsets(worker.configs.get("src")) == []
            await worker.write(lambda: delete(worker.configs, "src"))
            await until(lambda: state(worker, "src") == (None, {}))

    asyncio.run(story())
    assert values(broker, "story") == ["one", "two"]


def test_the_topics_of_a_connector_are_written_once_and_forgotten_with_it(broker, settings, tmp_path):
    read, written, topic = tmp_path / "in.txt", tmp_path / "out.txt", f"used-{next(_names)}"
    read.write_text("one\ntwo\n")
    sink = {"connector.class": "FileStreamSink", "file": str(written), "topics": topic}

    async def story():
        async with Worker(settings, "a:1") as worker:
            await made(worker, "src", lines(read, topic))
            await made(worker, "snk", sink)
            await until(lambda: worker.statuses.topics("src") == worker.statuses.topics("snk") == [topic])
            with read.open("a") as more:
                more.write("three\n")
            await until(lambda: written.exists() and written.read_text() == "one\ntwo\nthree\n")
            await worker.write(lambda: delete(worker.configs, "snk"))
            await until(lambda: worker.statuses.topics("snk") == [])
            assert worker.statuses.topics("src") == [topic]
            await worker.forget_topics("src")
            assert worker.statuses.topics("src") == []
            with read.open("a") as more:
                more.write("four\n")
            await until(lambda: worker.statuses.topics("src") == [topic])

    asyncio.run(story())
    found = [record.value is not None for record in broker.records(settings.status_topic)
             if record.key == f"status-topic-{topic}:connector-src".encode()]  # fmt: skip
    assert found == [True, False, True]


def test_an_unknown_option_of_a_connector_is_named_with_the_nearest(settings, tmp_path, caplog):
    strange = lines(tmp_path / "none", "strange") | {"batch.sise": "1", "errors.deadletterqueue.topic.name": ""}

    async def story():
        async with Worker(settings, "a:1") as worker:
            await made(worker, "strange", strange)
            await until(lambda: state(worker, "strange") == ("RUNNING", {0: "RUNNING"}))

    asyncio.run(story())
    named = [each for each in caplog.messages if "Unknown configuration" in each]
    assert named == ["strange: Unknown configuration 'batch.sise' (did you mean batch.size?)"]


def test_a_worker_that_dies_has_its_work_taken_over_with_nothing_lost(broker, settings, tmp_path):
    files = [tmp_path / f"{number}.txt" for number in range(2)]
    for file in files:
        file.write_text(f"{file.stem} one\n")

    all_lines = {f"{number} {word}" for number in range(2) for word in ("one", "two")}

    async def story():
        async with contextlib.AsyncExitStack() as stack:
            first, second = Worker(settings, "a:1"), Worker(settings, "b:2")
            await first.__aenter__()
            await stack.enter_async_context(second)
            for number, file in enumerate(files):
                await made(second, f"src{number}", lines(file, "shared"))
            await until(lambda: len(first._member.held) == len(second._member.held) == 2)
            await until(lambda: all(state(second, f"src{n}") == ("RUNNING", {0: "RUNNING"}) for n in range(2)))
            for task in [*first._background, *(each.job for each in first._tasks._tasks.values())]:
                task.cancel()  # silent from here on, as a killed process is
            await until(lambda: len(second._member.held) == 4)
            for file in files:
                with file.open("a") as more:
                    more.write(f"{file.stem} two\n")
            await until(lambda: all(second.statuses.tasks(f"src{n}")[0].worker_id == "b:2" for n in range(2)))
            async with asyncio.timeout(_WAIT_S):
                while set(await asyncio.to_thread(values, broker, "shared")) != all_lines:
                    await asyncio.sleep(0.05)
            await first._close_clusters()

    asyncio.run(story())


def test_a_worker_that_starts_later_knows_what_the_others_made(broker, settings, tmp_path):
    async def story():
        async with Worker(settings, "a:1") as worker:
            await made(worker, "idle", lines(tmp_path / "none", "idle"), Target.STOPPED)
            await until(lambda: state(worker, "idle") == ("STOPPED", {}))
        async with Worker(settings, "b:2") as worker:
            assert worker.configs.get("idle").target is Target.STOPPED
            await until(lambda: worker.statuses.connectors["idle"].worker_id == "b:2")

    asyncio.run(story())
