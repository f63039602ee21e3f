"""A round runs here or on Spark, by what was asked for and by its size."""

import json
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from ottla import lake
from ottla.client.errors import ClientError
from ottla.kernel.ids import TopicPartition
from ottla.lake.notes.plans import LoadPlan
from ottla.lake.rounds import engines
from ottla.lake.rounds.engines import MOST_HERE, Engines, choice, where_to_run
from ottla.records.reader import Record
from ottla.rows import sizes
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import OffsetRange
from ottla.rows.workers import Here, Processes, TaskFailed
from ottla.stores import LakeRefused

MiB = 1 << 20
DAY = 86_400_000


@pytest.mark.parametrize(
    ("on", "size", "lacking", "spark", "processes"),
    [
        ("auto", 0, None, False, 1),
        ("auto", 16 * MiB, None, False, 1),
        ("auto", 16 * MiB + 1, None, False, 2),
        ("auto", MOST_HERE, None, False, 4),
        ("auto", MOST_HERE + 1, None, True, 0),
        ("auto", MOST_HERE + 1, "pyspark is not installed", False, 5),
        ("local", 1 << 40, None, False, 8),
        ("spark", 1, None, True, 0),
    ],
)
def test_small_rounds_run_here_and_large_ones_on_spark(on, size, lacking, spark, processes):
    found = choice(on, size, 8, lacking)
    assert (found.spark, found.processes) == (spark, processes)


def test_a_large_round_without_spark_says_why_it_runs_here():
    assert choice("auto", 1 << 30, 2, "pyspark is not installed").why == (
        "about 1.0 GiB to load, and pyspark is not installed"
    )
    assert choice("local", 1 << 30, 2, None).why == "about 1.0 GiB to load"


def test_spark_is_where_it_was_given(monkeypatch):
    monkeypatch.setattr(engines, "spark_is_set_up", lambda: False)
    assert where_to_run(None, spark=True) == where_to_run("auto", spark=True) == "spark"
    assert where_to_run(None, spark=False) == where_to_run("auto", spark=False) == "auto"
    assert where_to_run("local", spark=False) == "local"
    with pytest.raises(LakeRefused, match="--on local runs without Spark"):
        where_to_run("local", spark=True)


@pytest.mark.parametrize("name", engines.SET_UP)
def test_an_environment_that_names_a_spark_is_one_that_gives_it(monkeypatch, name):
    for each in engines.SET_UP:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "pyspark")
    assert where_to_run(None, spark=False) == "auto"
    monkeypatch.setenv(name, "x")
    assert where_to_run(None, spark=False) == "spark"
    assert where_to_run("local", spark=False) == "local"


def test_a_session_that_runs_already_is_taken_and_stays(monkeypatch):
    stopped, told = [], []
    context = SimpleNamespace(master="local[3]", defaultParallelism=3)
    session = SimpleNamespace(sparkContext=context, stop=lambda: stopped.append(True))
    monkeypatch.setattr(engines, "running_session", lambda: session)
    monkeypatch.setattr(engines, "find_spec", lambda name: object())
    assert where_to_run(None, spark=False) == "spark"
    made = Engines("spark", None, KafkaSettings("x"), told.append)
    assert made.workers(LoadPlan(0, ())).count == 3
    made.close()
    assert not stopped and not told


def test_spark_that_is_missing_is_named_with_its_installation(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(LakeRefused, match=r"--on spark needs Spark: pip install 'ottla\[spark\]'"):
        Engines("spark", None, KafkaSettings("x"), print).workers(LoadPlan(0, ()))
    assert engines.lacking_spark() == "pyspark is not installed"


def test_each_round_has_as_many_processes_as_its_bytes_are_worth(monkeypatch):
    told, size = [], [1000]
    monkeypatch.setattr(engines, "cluster", lambda kafka: None)
    monkeypatch.setattr(engines, "estimated_bytes", lambda where, ranges: size[0])
    monkeypatch.setattr(engines, "cores", lambda: 2)
    made = Engines("local", None, KafkaSettings("x"), told.append)
    one = made.workers(LoadPlan(0, ()))
    assert isinstance(one, Here) and made.workers(LoadPlan(1, ())) is one
    size[0] = 1 << 30
    several = made.workers(LoadPlan(2, ()))
    assert isinstance(several, Processes) and several.count == 2
    made.close()
    assert told == [
        "loading in this process, without Spark: about 1,000 bytes to load",
        "loading in 2 processes here, without Spark: about 1.0 GiB to load",
    ]


def test_the_size_of_ranges_is_their_share_of_the_logs(topics):
    topic = topics.new(2)
    topics.fill(topic, 0, [Record(0, 1_700_000_000_000, None, os.urandom(1000)) for _ in range(100)])
    topics.fill(topic, 1, [Record(0, 1_700_000_000_000, None, os.urandom(10)) for _ in range(100)])
    half, all_ = (
        sizes.estimated_bytes(topics.cluster, [OffsetRange(topic, 0, 0, end), OffsetRange(topic, 1, 0, 0)])
        for end in (50, 100)
    )
    assert 50_000 < half < 60_000 and 100_000 < all_ < 110_000
    assert 1_500 < sizes.estimated_bytes(topics.cluster, [OffsetRange(topic, 1, 0, 100)]) < 5_000


def test_a_broker_that_tells_no_sizes_leaves_a_guess_by_the_number_of_records(topics, monkeypatch):
    async def refused(plan, brokers, partitions):
        return {broker.id: ClientError("no") for broker in brokers}

    monkeypatch.setattr(sizes, "describe_log_dirs", refused)
    assert sizes.estimated_bytes(topics.cluster, [OffsetRange(topics.new(), 0, 10, 20)]) == 10 * 1024


def test_a_small_load_imports_neither_spark_nor_pandas_nor_libraries_of_other_lakes(topics, bootstrap, tmp_path):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, 1_700_000_000_000, None, json.dumps({"id": at}).encode()) for at in range(10)])
    code = (
        "import sys; from ottla.cli.main import main; status = main(sys.argv[1:]);"
        "heavy = {'pyspark', 'py4j', 'pandas', 'deltalake', 'pyiceberg', 'obstore', 'hdfs_native'};"
        "print(sorted(heavy & {*sys.modules}));"
        "sys.exit(status)"
    )
    environment = {name: text for name, text in os.environ.items() if name not in engines.SET_UP}
    for to in ("lake", "lake"):
        done = subprocess.run(
            [sys.executable, "-c", code, "lake", "load", topic, "--to", str(tmp_path / to), "-b", bootstrap, "--json"],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "[]"
    assert lake.rows(tmp_path / "lake", topic).read_all().num_rows == 10


def test_several_processes_make_the_same_lake_as_one(topics, bootstrap, tmp_path, monkeypatch):
    names = [topics.new(2), topics.new()]
    for topic in names:
        for partition in topics.cluster.partitions(topic):
            values = [{"id": at, "late": f"{at}"} if at > 30 else {"id": at} for at in range(60)]
            topics.fill(
                topic,
                partition.partition,
                [Record(0, DAY * at, None, json.dumps(v).encode()) for at, v in enumerate(values)],
            )
    monkeypatch.setattr(engines, "cores", lambda: 2)
    lakes = {}
    for place, share in (("one", 1 << 40), ("two", 1)):
        monkeypatch.setattr(engines, "BYTES_OF_A_PROCESS", share)
        told = []
        options = {"bootstrap": bootstrap, "on": "local", "json": True, "partition_by": "month", "tell": told.append}
        loaded = lake.load(names, to=tmp_path / place, **options)
        assert loaded.adds_up and loaded.rows == 180
        where = "this process" if place == "one" else "2 processes here"
        assert any(line.startswith(f"loading in {where}, without Spark: ") for line in told)
        lakes[place] = [
            (len(list((tmp_path / place / f"topic={topic}").rglob("*.parquet"))), sorted_rows(tmp_path / place, topic))
            for topic in names
        ]
    assert lakes["one"] == lakes["two"]


def sorted_rows(place, topic):
    found = lake.rows(place, topic).read_all()
    return found.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()


def test_a_dead_worker_fails_the_load_with_a_sentence_and_the_next_one_loads_all(
    topics, bootstrap, tmp_path, monkeypatch
):
    topic = topics.new(2)
    for partition in range(2):
        topics.count(topic, partition, 50)
    monkeypatch.setattr(engines, "cores", lambda: 2)
    monkeypatch.setattr(engines, "BYTES_OF_A_PROCESS", 1)
    monkeypatch.setattr(engines, "Processes", Dying)
    with pytest.raises(TaskFailed, match="SIGKILL"):
        lake.load(topic, to=tmp_path / "lake", bootstrap=bootstrap, on="local", tell=print)
    assert not list(tmp_path.rglob("*.parquet"))
    monkeypatch.setattr(engines, "Processes", Processes)
    loaded = lake.load(topic, to=tmp_path / "lake", bootstrap=bootstrap, on="local", tell=print)
    assert loaded.rows == 100 and loaded.committed.offsets == {TopicPartition(topic, each): 50 for each in range(2)}


class Dying(Processes):
    """Processes that are killed in each task."""

    def map(self, work, given):
        return super().map(die, given)


def die(_):
    os.kill(os.getpid(), 9)
    threading.Event().wait()
