"""Tasks with ottla.runner=spark; here threads of this process stand for Spark's workers."""

import asyncio
import json
import sqlite3
import threading

import pytest

from ottla.client import Admin, CommittedOffset, Producer, TopicPartition
from ottla.client.admin.admin import NewTopic
from ottla.connect.errors import RetriableException
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.validation import validated
from ottla.connect.plugins.jdbc import pieces
from ottla.connect.standalone import Standalone
from ottla.connect.tasks import on_spark
from ottla.connect.tasks.counts import TaskCounts
from ottla.connect.tasks.ranges import PieceDone, WorkPiece, carried_out
from ottla.jobs.states import JobState
from ottla.sinks.files.connectors import HdfsSinkConnector
from ottla.testing.reading import read_topic

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def jobs(monkeypatch):
    """The pieces of each job that was done."""
    done = []

    def here(spark, given):
        done.append(given)
        return [carried_out(each) for each in given]

    monkeypatch.setattr(on_spark, "_on_session", here)
    monkeypatch.setattr(on_spark, "_opened", lambda spark: None)
    return done


@pytest.fixture
def worker(bootstrap, tmp_path):
    return {
        "bootstrap.servers": bootstrap, "key.converter": STRING, "value.converter": STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets"), "offset.flush.interval.ms": "50",
    }  # fmt: skip


def files_sink(name, folder, **more):
    return {
        "name": f"{name}-files", "connector.class": "HdfsSink", "store.url": f"file://{folder}", "flush.size": "2",
        "format.class": "StringFormat", "topics": name, "ottla.runner": "spark", **more,
    }  # fmt: skip


def send(bootstrap, topic, *values, partitions=1):
    with Producer(bootstrap) as producer:
        Admin(cluster=producer.cluster).create_topics([NewTopic(topic, partitions)])
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions)


def values_in(bootstrap, topic, count):
    """The values of the first so many records, and of those that came with them."""
    found = read_topic(bootstrap, topic, at_least=count, isolation_level="read_uncommitted", timeout=60)
    return [each.value for each in found]


def lines_below(folder):
    return sorted(line for each in folder.rglob("*.txt") for line in each.read_text().splitlines())


async def ran(standalone, is_done):
    """Run connectors until a condition holds, or all have ended."""
    running = asyncio.create_task(standalone.run())
    async with asyncio.timeout(60):
        while not is_done() and not running.done():
            await asyncio.sleep(0.01)
    standalone.stop()
    return await running


def committed(bootstrap, group):
    with Admin(bootstrap) as admin:
        return {each.partition: found.offset for each, found in admin.committed_offsets(group).items()}


def test_a_sink_writes_all_partitions_and_commits_what_is_in_finished_files(worker, bootstrap, jobs, tmp_path, name):
    send(bootstrap, name, b"a", b"b", b"c", b"d", b"e", partitions=2)
    standalone = Standalone(worker, [files_sink(name, tmp_path / "out", **{"tasks.max": "4"})])
    assert asyncio.run(ran(standalone, lambda: committed(bootstrap, f"connect-{name}-files") == {0: 2, 1: 2})) == 0
    assert lines_below(tmp_path / "out") == ["a", "b", "c", "d"]
    assert len(standalone.tasks) == 1
    assert [each.span.end for each in sorted(jobs[0], key=lambda each: each.span.partition)] == [3, 2]
    send(bootstrap, name, b"f", partitions=1)
    more = Standalone(worker, [files_sink(name, tmp_path / "out")])
    assert asyncio.run(ran(more, lambda: committed(bootstrap, f"connect-{name}-files") == {0: 4, 1: 2})) == 0
    assert lines_below(tmp_path / "out") == ["a", "b", "c", "d", "e", "f"]


def test_a_fault_of_one_connector_ends_it_alone_in_a_job_that_others_share(worker, bootstrap, jobs, tmp_path, name):
    send(bootstrap, name, b"a", b"b")
    bad = files_sink(name, tmp_path / "bad") | {"name": f"{name}-bad", "value.converter": JSON}
    standalone = Standalone(worker, [files_sink(name, tmp_path / "out"), bad])

    def is_done():
        failed = [task.name for task in standalone.tasks if task.status.state is JobState.FAILED]
        return failed == [f"{name}-bad-0"] and lines_below(tmp_path / "out")

    asyncio.run(ran(standalone, is_done))
    assert lines_below(tmp_path / "out") == ["a", "b"]
    failed = next(task.status.fault for task in standalone.tasks if task.name == f"{name}-bad-0")
    assert "VALUE_CONVERTER refused the record" in failed.reason and not failed.may_pass
    assert committed(bootstrap, f"connect-{name}-bad") == {}


def test_a_bad_record_becomes_a_dead_letter_and_is_committed(worker, bootstrap, jobs, tmp_path, name):
    send(bootstrap, name, b'{"n": 1}', b"{", b'{"n": 2}')
    more = {
        "value.converter": JSON, "value.converter.schemas.enable": "false", "format.class": "JsonFormat",
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1", "flush.size": "2",
    }  # fmt: skip
    standalone = Standalone(worker, [files_sink(name, tmp_path / "out", **more)])
    assert asyncio.run(ran(standalone, lambda: committed(bootstrap, f"connect-{name}-files") == {0: 3})) == 0
    assert values_in(bootstrap, f"{name}-dead", 1) == [b"{"]


def test_offsets_that_retention_took_are_named_and_the_rest_is_written(worker, bootstrap, jobs, tmp_path, name, caplog):
    send(bootstrap, name, b"a", b"b", b"c", b"d")
    with Admin(bootstrap) as admin:
        admin.commit_offsets(f"connect-{name}-files", {TopicPartition(name, 0): CommittedOffset(1)})
        admin.delete_records({TopicPartition(name, 0): 2})
    standalone = Standalone(worker, [files_sink(name, tmp_path / "out")])
    assert asyncio.run(ran(standalone, lambda: lines_below(tmp_path / "out") == ["c", "d"])) == 0
    assert "begins at offset 2 now, so 1 offsets behind the committed one are gone" in caplog.text


def test_a_task_that_is_ended_while_its_session_opens_gives_the_session_back(
    worker, bootstrap, tmp_path, name, monkeypatch
):
    steps, opening, go_on = [], threading.Event(), threading.Event()

    def opened(spark):
        opening.set()
        assert go_on.wait(60)
        steps.append("opened")

    monkeypatch.setattr(on_spark, "_opened", opened)
    monkeypatch.setattr(on_spark.SharedSpark, "release", lambda spark: steps.append("released"))

    async def story():
        standalone = Standalone(
            {**worker, "task.shutdown.graceful.timeout.ms": "1"}, [files_sink(name, tmp_path / "out")]
        )
        running = asyncio.create_task(standalone.run())
        await asyncio.to_thread(opening.wait, 60)
        standalone.stop()
        await asyncio.sleep(0.05)  # the task is cancelled several times meanwhile
        go_on.set()
        await running

    asyncio.run(story())
    assert steps == ["opened", "released"]


def test_pieces_that_come_while_a_job_runs_go_into_the_next_one_together():
    first, rounds = asyncio.Event(), []

    async def story():
        loop = asyncio.get_running_loop()

        def do(spark, given):
            rounds.append([each.connector for each in given])
            if len(rounds) == 1:
                asyncio.run_coroutine_threadsafe(first.wait(), loop).result(60)
            return [PieceDone(TaskCounts(), offset=int(each.connector)) for each in given]

        gathered = on_spark.GatheredJobs(do)
        waiting = [asyncio.create_task(gathered.done(None, [WorkPiece("1", None, {}, {})]))]
        while not rounds:
            await asyncio.sleep(0.01)
        waiting += [asyncio.create_task(gathered.done(None, [WorkPiece(each, None, {}, {})] * 2)) for each in "23"]
        await asyncio.sleep(0)
        first.set()
        return [[each.offset for each in done] for done in await asyncio.gather(*waiting)]

    assert asyncio.run(story()) == [[1], [2, 2], [3, 3]]
    assert rounds == [["1"], ["2", "2", "3", "3"]]


def test_tables_are_read_whole_in_pieces_of_their_key(worker, bootstrap, jobs, tmp_path, name, monkeypatch):
    monkeypatch.setattr(pieces, "IDS", 10)
    with sqlite3.connect(tmp_path / "db") as database:
        database.execute("CREATE TABLE numbered (id INTEGER PRIMARY KEY, v TEXT)")
        database.executemany("INSERT INTO numbered VALUES (?, ?)", [(each, f"v{each}") for each in range(-5, 30)])
        database.execute("CREATE TABLE keyless (v TEXT)")
        database.execute("INSERT INTO keyless VALUES ('x')")
    source = {
        "name": f"{name}-rows", "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{tmp_path}/db",
        "mode": "bulk", "topic.prefix": f"{name}-", "poll.interval.ms": "3600000", "ottla.runner": "spark",
        "value.converter": JSON, "value.converter.schemas.enable": "false",
    }  # fmt: skip
    asyncio.run(ran(Standalone(worker, [source]), lambda: jobs))
    assert len(jobs) == 1 and len(jobs[0]) == 1 + 4
    rows = [json.loads(each)["id"] for each in values_in(bootstrap, f"{name}-numbered", 35)]
    assert sorted(rows) == list(range(-5, 30))
    assert len(values_in(bootstrap, f"{name}-keyless", 1)) == 1


@pytest.fixture
def rows(worker, tmp_path, name, monkeypatch):
    """A table of 25 rows, and a connector that reads it on Spark first. Offsets are kept late, or where it says so."""
    monkeypatch.setattr(pieces, "IDS", 10)
    worker["offset.flush.interval.ms"] = "3600000"
    insert(tmp_path, range(25), "CREATE TABLE numbered (id INTEGER PRIMARY KEY, v TEXT)")
    return {
        "name": f"{name}-rows", "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{tmp_path}/db",
        "mode": "incrementing", "topic.prefix": f"{name}-", "poll.interval.ms": "10", "ottla.runner": "spark",
        "value.converter": JSON, "value.converter.schemas.enable": "false",
    }  # fmt: skip


def insert(folder, numbers, *first):
    with sqlite3.connect(folder / "db") as database:
        for each in first:
            database.execute(each)
        database.executemany("INSERT INTO numbered VALUES (?, ?)", [(each, f"v{each}") for each in numbers])


def ids_in(bootstrap, topic, count):
    return [json.loads(each)["id"] for each in values_in(bootstrap, topic, count)]


def kept(folder):
    """The offset that the worker keeps, None where it keeps none."""
    file = folder / "offsets"
    found = json.loads(file.read_text()) if file.exists() else []
    return found[0][1] if found else None


def test_a_table_that_is_polled_is_read_in_pieces_first_and_a_second_run_begins_behind_them(
    worker, bootstrap, jobs, tmp_path, name, rows
):
    async def story():
        standalone = Standalone(worker, [rows])
        running = asyncio.create_task(ran(standalone, lambda: False))
        phases = []
        while kept(tmp_path) is None or phases[-1] != "streaming":
            phases += [task.status.phase for task in standalone.tasks if task.status.phase not in phases]
            await asyncio.sleep(0)
        found = kept(tmp_path)
        assert [each for each in phases if each] == ["snapshot", "streaming"]
        assert standalone.statuses.tasks(rows["name"])[0].phase == "streaming"
        insert(tmp_path, range(25, 27))
        await asyncio.to_thread(ids_in, bootstrap, f"{name}-numbered", 27)
        standalone.stop()
        assert await running == 0
        return found, standalone.tasks

    found, tasks = asyncio.run(story())
    assert found == {"incrementing": 24}, "it is kept as soon as the snapshot is complete"
    assert len(tasks) == 1 and [len(each) for each in jobs] == [3]
    assert kept(tmp_path) == {"incrementing": 26}
    assert json.loads((tmp_path / "offsets").read_text())[0][0] == [
        f"{name}-rows", {"protocol": "1", "table": "numbered"},
    ]  # fmt: skip
    insert(tmp_path, [27])
    asyncio.run(ran(Standalone(worker, [rows]), lambda: len(ids_in(bootstrap, f"{name}-numbered", 27)) == 28))
    assert len(jobs) == 1
    found = ids_in(bootstrap, f"{name}-numbered", 28)
    assert sorted(found[:25]) == list(range(25)) and found[25:] == [25, 26, 27]


def test_a_snapshot_that_fails_is_taken_again_and_only_then_is_its_place_kept(
    worker, bootstrap, jobs, tmp_path, name, rows, monkeypatch
):
    offsets_then = []

    def failing_once(spark, given):
        jobs.append(given)
        done = [carried_out(each) for each in (given[:1] if len(jobs) == 1 else given)]
        offsets_then.append(kept(tmp_path))
        if len(jobs) == 1:
            raise RetriableException("Spark has not done its job")
        return done

    monkeypatch.setattr(on_spark, "_on_session", failing_once)
    asyncio.run(ran(Standalone(worker, [rows]), lambda: kept(tmp_path) == {"incrementing": 24}))
    assert [len(each) for each in jobs] == [3, 3] and offsets_then == [None, None]
    found = ids_in(bootstrap, f"{name}-numbered", 26)
    assert set(found) == set(range(25)) and len(found) > 25, "the first piece comes twice"


def test_a_stop_waits_for_the_snapshot_and_its_place_is_kept(
    worker, bootstrap, jobs, tmp_path, name, rows, monkeypatch
):
    working, go_on = threading.Event(), threading.Event()

    def slow(spark, given):
        working.set()
        assert go_on.wait(60)
        jobs.append(given)
        return [carried_out(each) for each in given]

    monkeypatch.setattr(on_spark, "_on_session", slow)

    async def story():
        standalone = Standalone(worker, [rows])
        running = asyncio.create_task(standalone.run())
        await asyncio.to_thread(working.wait, 60)
        standalone.stop()
        await asyncio.sleep(0.05)  # the read is cancelled meanwhile
        assert not running.done() and kept(tmp_path) is None
        go_on.set()
        return await running

    assert asyncio.run(story()) == 0
    assert len(jobs) == 1 and kept(tmp_path) == {"incrementing": 24}
    assert sorted(ids_in(bootstrap, f"{name}-numbered", 25)) == list(range(25))


class OfAUser(HdfsSinkConnector):
    """Stands for a connector of a package, which knows nothing of Spark but that it may run there."""

    java_class = "com.example.OfAUser"


def test_options_of_spark_need_not_be_declared_by_a_connector_that_may_run_there():
    assert "spark.master" not in OfAUser.options().options
    assert [each.name for each in OfAUser.all_options()][-2:] == ["spark.master", "spark.conf"]


@pytest.mark.parametrize(("low", "high", "found"), [(1, 100_000, []), (1, 100_001, [50_001]), (5, 5, [])])
def test_a_table_is_cut_where_it_spans_more_than_a_piece(low, high, found):
    assert pieces.cuts(low, high) == found


def test_a_table_of_any_span_has_a_bounded_number_of_pieces():
    bounds = pieces.cuts(-(2**63), 2**63 - 1)
    assert len(bounds) == pieces.MOST - 1 and bounds == sorted(set(bounds))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rotate.schedule.interval.ms": "1000", "timezone": "UTC"}, "rotate.schedule.interval.ms goes by the clock"),
        ({"rotate.interval.ms": "1000"}, "rotate.interval.ms with this partitioner and timestamp.extractor goes by"),
        ({"partitioner.class": "DailyPartitioner", "timezone": "UTC", "locale": "en"}, "timestamp.extractor=Wallclock"),
        ({"ottla.runner": "light", "spark.master": "yarn"}, "spark.master has an effect with ottla.runner=spark alone"),
        ({"connector.class": "FileStreamSink"}, "String must be one of: light"),
    ],
)
def test_a_configuration_that_cannot_run_on_spark_is_refused(change, said):
    errors = validated(files_sink("t", "/out", **change), WorkerView()).errors
    assert len(errors) == 1 and said in errors[0]


def jdbc(mode="incrementing", **more):
    return {
        "name": "c", "connector.class": "JdbcSource", "connection.url": "jdbc:sqlite:db", "topic.prefix": "t",
        "mode": mode, "ottla.runner": "spark", **more,
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["bulk", "incrementing", "timestamp", "timestamp+incrementing"])
def test_a_database_is_read_on_spark_in_each_mode_and_a_query_in_bulk_alone(mode):
    assert not validated(jdbc(mode), WorkerView()).errors
    query = {"query": "SELECT 1 AS id", "incrementing.column.name": "id"}
    errors = validated(jdbc(mode, **query), WorkerView()).errors
    said = "Invalid value spark for configuration ottla.runner: it reads a query with mode=bulk alone"
    assert errors == ([] if mode == "bulk" else [said])


def test_a_snapshot_on_spark_is_no_exactly_once_delivery():
    required = {"exactly.once.support": "required"}
    view = WorkerView(exactly_once=True)
    assert not validated(jdbc(**required, **{"ottla.runner": "light"}), view).errors
    (error,) = validated(jdbc(**required), view).errors
    assert "does not support exactly-once semantics with the provided configuration" in error
