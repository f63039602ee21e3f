"""Source tasks with transactions: what a reader of committed records sees, and who is fenced."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.aio.cluster import Cluster
from ottla.client.errors import ProducerFenced
from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.fencing import Fencing
from ottla.connect.machine.records import ConnectorConfig, TaskConfig, TaskCount, TasksCommit
from ottla.connect.machine.state import Configs
from ottla.connect.plugins.base import SourceConnector, SourceTask
from ottla.connect.records import PassedPlace, SourceRecord
from ottla.connect.tasks.exactly_once import ExactlyOnce
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.task import run_task
from ottla.connect.topics import LayeredOffsets, TopicOffsets
from ottla.jobs.states import Event, RestartPolicy

STRING = "org.apache.kafka.connect.storage.StringConverter"


class Counting(SourceConnector):
    """Reads numbers in lists of three, and ends a transaction behind each that five divides."""

    java_class = "org.example.CountingConnector"
    version = "1"
    until = 9
    fails_at = None
    before_failing = None
    passes = False
    at_once = False

    @classmethod
    def options(cls):
        return ConfigDef()

    @classmethod
    def task(cls, config):
        return CountingTask(config["name"])


class CountingTask(SourceTask):
    def __init__(self, topic):
        self.topic = topic

    async def start(self, offsets):
        kept = (await offsets.read([{"p": 1}]))[0]
        self.next = kept["n"] + 1 if kept else 0

    async def read(self):
        if self.next == Counting.fails_at:
            await Counting.before_failing()
            Counting.fails_at = None
            raise RetriableException("the other side is away")
        if self.next >= Counting.until:
            await asyncio.Event().wait()
        made = [
            SourceRecord(self.topic, value=str(n), source_partition={"p": 1}, source_offset={"n": n},
                         ends_transaction=n % 5 == 0)
            for n in range(self.next, self.next + 3)
        ]  # fmt: skip
        self.next += 3
        if Counting.passes:
            offset = {"n": self.next + 99}
            made.append(PassedPlace("", source_partition={"p": 1}, source_offset=offset, at_once=Counting.at_once))
        return made


class OpenFence:
    """Nothing is to be fenced."""

    async def cleared(self, connector, task):
        return 1

    async def confirm(self, connector, task, of_round):
        pass


def committed(bootstrap, topic, count, **options):
    """So many records as a reader of committed records, or of all, sees them."""
    chosen = {"isolation_level": "read_committed", **options}
    with Consumer(bootstrap, group_id=None, auto_offset_reset="earliest", **chosen) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = []
        while len(found) < count:
            found += consumer.poll(1_000)
        return [record.value.decode() for record in found]


@asynccontextmanager
async def counting(bootstrap, name, *, own=None, **more):
    """A task of `Counting` under way, with its offsets."""
    with Admin(bootstrap) as admin:
        if name not in admin.list_topics():
            admin.create_topic(name, partitions=1)
    cluster = Cluster(bootstrap)
    store = TopicOffsets(cluster, f"{name}-offsets", 2, 1)
    if own is not None:
        store = LayeredOffsets(TopicOffsets(cluster, own, 1, 1), store)
    worker = {"bootstrap.servers": bootstrap, "key.converter": STRING, "value.converter": STRING}
    config = {"name": name, "connector.class": "Counting", **more}
    once = ExactlyOnce("group", store, OpenFence())
    quick = RestartPolicy(delay_ms=10)
    task = run_task(TaskPlan(name, 0, Counting, config, config, worker), store, policy=quick, once=once)
    running = asyncio.create_task(task.run())
    try:
        yield task, running, store
        task.ask(Event.STOP)
        assert await running == 0
    finally:
        await cluster.close()


async def until_kept(store, name, number):
    while await store.read(name, [{"p": 1}]) != [{"n": number}]:
        await asyncio.sleep(0.02)


def test_a_task_that_fails_between_records_and_offsets_writes_none_twice(bootstrap, name):
    async def all_are_there():
        found = await asyncio.to_thread(committed, bootstrap, name, 6, isolation_level="read_uncommitted")
        assert found == ["0", "1", "2", "3", "4", "5"], "the transaction that will be aborted is written"

    async def story():
        Counting.until, Counting.fails_at, Counting.before_failing = 9, 6, all_are_there
        interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}
        async with counting(bootstrap, name, **interval) as (_, _, store):
            await asyncio.to_thread(committed, bootstrap, name, 15, isolation_level="read_uncommitted")
            assert await store.read(name, [{"p": 1}]) == [None], "offsets count with their transaction alone"
        await until_kept_by(bootstrap, name, 8)

    asyncio.run(story())
    assert committed(bootstrap, name, 9) == [str(n) for n in range(9)]


async def until_kept_by(bootstrap, name, number):
    cluster = Cluster(bootstrap)
    try:
        await until_kept(TopicOffsets(cluster, f"{name}-offsets", 2, 1), name, number)
    finally:
        await cluster.close()


def test_each_read_is_a_transaction_and_the_next_task_goes_on_behind_it(bootstrap, name):
    async def story():
        Counting.until, Counting.fails_at = 3, None
        async with counting(bootstrap, name) as (_, _, store):
            await until_kept(store, name, 2)
        Counting.until = 6
        async with counting(bootstrap, name) as (_, _, store):
            await until_kept(store, name, 5)

    asyncio.run(story())
    assert committed(bootstrap, name, 6) == [str(n) for n in range(6)]


def test_a_place_that_a_read_has_passed_is_kept_by_its_transaction(bootstrap, name):
    async def story():
        Counting.until, Counting.fails_at, Counting.passes = 3, None, True
        try:
            async with counting(bootstrap, name) as (_, _, store):
                await until_kept(store, name, 102)
        finally:
            Counting.passes = False

    asyncio.run(asyncio.wait_for(story(), 60))
    assert committed(bootstrap, name, 3) == ["0", "1", "2"]


def test_a_place_that_took_long_to_reach_is_kept_before_the_interval_is_over(bootstrap, name):
    async def story():
        Counting.until, Counting.fails_at, Counting.passes, Counting.at_once = 3, None, True, True
        interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}
        try:
            async with counting(bootstrap, name, **interval) as (_, _, store):
                await until_kept(store, name, 102)
                assert await asyncio.to_thread(committed, bootstrap, name, 3) == ["0", "1", "2"]
        finally:
            Counting.passes = Counting.at_once = False

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_connector_ends_its_own_transactions_and_what_it_did_not_end_is_aborted(bootstrap, name):
    async def story():
        Counting.until, Counting.fails_at = 9, None
        async with counting(bootstrap, name, **{"transaction.boundary": "connector"}) as (_, _, store):
            await until_kept(store, name, 5)
            await asyncio.to_thread(committed, bootstrap, name, 9, isolation_level="read_uncommitted")
        with Producer(bootstrap) as producer:
            producer.produce(name, "behind")

    asyncio.run(story())
    assert committed(bootstrap, name, 7) == ["0", "1", "2", "3", "4", "5", "behind"]


def test_offsets_of_a_topic_of_its_own_win_and_are_copied_to_the_workers(bootstrap, name):
    async def story():
        Counting.until, Counting.fails_at = 3, None
        async with counting(bootstrap, name) as (_, _, store):
            await until_kept(store, name, 2)
        Counting.until = 6
        async with counting(bootstrap, name, own=f"{name}-own") as (_, _, store):
            await until_kept(store, name, 5)
            assert await store._own.read(name, [{"p": 1}]) == [{"n": 5}]
            await until_kept(store._shared, name, 5)
            await store.write(name, [({"p": 1}, None)])
            assert await store.all(name) == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("producer.override.transactional.id", "mine", "transactional.id cannot be set"),
        ("producer.override.enable.idempotence", "false", "enable.idempotence cannot be set"),
        ("producer.override.transaction.timeout.ms", "1000", "the brokers abort it after 1000 ms"),
    ],
)
def test_an_override_that_would_break_exactly_once_ends_the_task_with_its_name(bootstrap, name, option, value, said):
    worker = {"bootstrap.servers": bootstrap, "key.converter": STRING, "value.converter": STRING}
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "5000"}
    config = {"name": name, "connector.class": "Counting", option: value, **interval}
    once = ExactlyOnce("group", None, OpenFence())
    task = run_task(TaskPlan(name, 0, Counting, config, config, worker), None, once=once)
    assert asyncio.run(task.run()) == 1
    assert said in task.status.fault.reason


class KnownConfigs:
    """A worker whose configs topic nobody else writes."""

    def __init__(self, configs):
        self.configs = configs

    async def fresh(self):
        pass

    async def write(self, decide):
        decision = decide()
        for record in decision.records:
            self.configs.apply(record)
        return decision.answer


def a_smaller_set(name):
    """A connector that had two tasks and has one from now on, before its round of fencing."""
    configs = Configs()
    for record in (
        ConnectorConfig(name, {"name": name}), TaskConfig(name, 0, {}), TaskConfig(name, 1, {}), TasksCommit(name, 2),
        TaskCount(name, 2), TasksCommit(name, 1),
    ):  # fmt: skip
        configs.apply(record)
    return configs


def test_producers_of_an_earlier_set_of_tasks_are_fenced_before_a_task_may_begin(bootstrap, name):
    configs = a_smaller_set(name)
    zombies = [Producer(bootstrap, transactional_id=f"g-{name}-{number}") for number in range(2)]
    for zombie in zombies:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.produce(name, "of the zombie").result()

    async def story():
        cluster = Cluster(bootstrap)
        fencing = Fencing(KnownConfigs(configs), cluster, "g", lambda unit: True)
        waiting = asyncio.create_task(fencing.cleared(name, 0))
        await asyncio.sleep(0)
        assert not waiting.done()
        fencing.begin(name)
        while configs.unfenced(name) is not None:
            await asyncio.sleep(0.02)
        fencing.stir()
        of_round = await waiting
        await fencing.confirm(name, 0, of_round)
        configs.apply(TasksCommit(name, 1))
        with pytest.raises(RetriableException, match="given out anew"):
            await fencing.confirm(name, 0, of_round)
        await fencing.close()
        await cluster.close()

    asyncio.run(story())
    for zombie in zombies:
        with pytest.raises(ProducerFenced):
            zombie.commit_transaction()
        zombie.close()


def test_a_task_that_another_worker_has_by_now_does_not_begin(bootstrap, name):
    async def story():
        cluster = Cluster(bootstrap)
        configs = a_smaller_set(name)
        configs.apply(TaskCount(name, 1))
        fencing = Fencing(KnownConfigs(configs), cluster, "g", lambda unit: False)
        with pytest.raises(RetriableException, match="given out anew"):
            await fencing.cleared(name, 0)
        await cluster.close()

    asyncio.run(story())


def test_a_value_that_no_boundary_has_is_refused():
    with pytest.raises(ConfigException, match=r"transaction\.boundary"):
        from ottla.connect.machine.connector_options import values_of

        values_of("source", {"name": "x", "connector.class": "x", "transaction.boundary": "sometimes"})
