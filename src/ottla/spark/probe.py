"""Checks the executors before work begins: Python, packages, brokers, and the caller's own requirements.

Spark tells such faults late, in long traces, and a task that another executor repeats hides them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import ottla
from ottla.client.blocking.cluster import Cluster, Connection
from ottla.client.errors import ClientError
from ottla.client.model import ClientSettings, Destination
from ottla.rows.kafka_settings import KafkaSettings
from ottla.spark.launch import SparkRefused

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Check = Callable[[], str | None]
"""A check that runs on an executor; returns a sentence about a fault there, or None."""

Task = Callable[[Iterable[int]], Iterator[tuple[str, int, str | None]]]

PATIENCE_MS = 5_000
"""The time for a connection to a broker."""
ROUNDS = 3
JOB_GROUP = "spark.jobGroup.id"
GONE = "ExecutorLostFailure"
"""The mark of an executor that has ended in Spark's text about a failed task."""


class TaskFinding(NamedTuple):
    """The finding of a task: its host, the parent of its process (one for each executor), and a fault or None."""

    host: str
    parent: int
    fault: str | None


def probe(spark: SparkSession, kafka: KafkaSettings | None = None, check: Check | None = None) -> int:
    """Run one task on each executor, at least one; the number of executors that answered.

    Raises SparkRefused with the first fault. On a local master, whose tasks run in this environment, nothing is
    done. An executor that is busy may be passed over.
    """
    context = spark.sparkContext
    if context._jsc.sc().isLocal():
        return 0
    from pyspark.cloudpickle import dumps

    rest: bytes = dumps((kafka, check))  # type: ignore[no-untyped-call]
    examine = examiner(ottla.__version__, rest)
    answered: set[tuple[str, int]] = set()
    for _ in range(ROUNDS):
        for seen in _run(context, examine, max(1, _executors(context))):
            if seen.fault is not None:
                raise SparkRefused(f"the executor on {seen.host}: {seen.fault}")
            answered.add((seen.host, seen.parent))
        if len(answered) >= _executors(context):
            break
    return len(answered)


def examiner(version: str, rest: bytes) -> Task:
    """The task. It goes to executors by value, and so runs where this package is missing."""

    def examine(_: Iterable[int]) -> Iterator[tuple[str, int, str | None]]:
        import importlib
        import os
        import platform
        import sys

        def fault() -> str | None:
            needed = f"ottla[spark]=={version} into {sys.executable}, or name another Python with spark.pyspark.python"
            for name in ("ottla", "pyarrow", "numpy"):
                try:
                    module = importlib.import_module(name)
                except ImportError as missing:
                    return f"{missing}. Install {needed}"
                if name == "ottla" and module.__version__ != version:
                    return f"ottla is {module.__version__} there and {version} on the driver. Install {needed}"
            found: str | None = importlib.import_module("ottla.spark.probe").look_around(rest)
            return found

        yield platform.node(), os.getppid(), fault()

    return examine


def look_around(rest: bytes) -> str | None:
    """On the executor: check that brokers can be reached, and run the caller's check."""
    from pyspark.cloudpickle import loads

    kafka, check = loads(rest)
    fault = None if kafka is None else unreachable(kafka)
    if fault is None and check is not None:
        fault = check()
    return fault


def unreachable(kafka: KafkaSettings) -> str | None:
    """The reason why this machine cannot reach the brokers under the addresses that they advertise."""
    settings = ClientSettings(
        client_id=kafka.client_id,
        request_timeout_ms=PATIENCE_MS,
        api_timeout_ms=PATIENCE_MS,
        connect_timeout_ms=PATIENCE_MS,
        bootstrap_timeout_ms=PATIENCE_MS,
        security=kafka.security,
    )
    with Cluster(kafka.bootstrap_servers, settings=settings) as cluster:
        try:
            brokers = cluster.brokers()
        except ClientError as fault:
            reasons = [reason for each in cluster.plan.bootstrap if (reason := _no_way(each, settings))]
            return f"no broker can be reached: {'; '.join(reasons) or fault}. Open the way from there to a broker"
    for broker in sorted(brokers.values()):
        if reason := _no_way(broker.destination(), settings):
            return (
                f"broker {broker.id} cannot be reached at the address that it advertises: {reason}. "
                "Set advertised.listeners of the broker to a name and a port that executors reach"
            )
    return None


def _no_way(destination: Destination, settings: ClientSettings) -> str | None:
    """The reason why no connection to this address can be made, or None where it can."""
    try:
        Connection(destination.host, destination.port, settings=settings).close()
    except ClientError as fault:
        return str(fault)
    return None


def _executors(context: SparkContext) -> int:
    """Executors that have registered. The driver is among the block managers that Spark counts."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _run(context: SparkContext, examine: Task, tasks: int) -> list[TaskFinding]:
    """One job. A task that failed is a fault even where its repetition went well."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    group, before = f"ottla-probe-{uuid.uuid4().hex}", context.getLocalProperty(JOB_GROUP)
    context.setLocalProperty(JOB_GROUP, group)
    try:
        found = context.parallelize(range(tasks), tasks).mapPartitions(examine).collect()
    except (Py4JJavaError, PySparkException) as fault:
        raise SparkRefused(next(_failures(context, group), in_one_sentence("", str(fault)))) from fault
    finally:
        context.setLocalProperty(JOB_GROUP, before)  # type: ignore[arg-type]
    for failure in _failures(context, group):
        raise SparkRefused(failure)
    return [TaskFinding(*each) for each in found]


def _failures(context: SparkContext, group: str) -> Iterator[str]:
    """Sentences about the tasks that failed."""
    scala, tracker = context._jsc.sc(), context.statusTracker()
    scala.listenerBus().waitUntilEmpty()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            tasks = scala.statusStore().taskList(stage, 0, 1_000)
            for task in (tasks.apply(index) for index in range(tasks.size())):
                text = task.errorMessage().get() if task.errorMessage().isDefined() else ""
                if task.status() == "FAILED" and not text.startswith(GONE):
                    yield in_one_sentence(task.host(), text)


def in_one_sentence(host: str, text: str) -> str:
    """The reason why a Python worker did not get as far as our task, out of Spark's long words."""
    where = f"the executor on {host}" if host else "an executor"
    if versions := re.search(r"Python in worker has different version: (\S+) than that in driver: ([\d.]+\d)", text):
        worker, driver = versions.groups()
        return f"{where} runs Python {worker}, the driver {driver}. Name a Python {driver} with spark.pyspark.python"
    if missing := re.search(r"No module named '?([\w.]+)'?", text):
        return (
            f"{where}: No module named {missing[1]!r}. Install ottla[spark]=={ottla.__version__} into the Python of "
            "every executor, or name another Python with spark.pyspark.python"
        )
    if program := re.search(r'Cannot run program "([^"]+)"', text):
        return f"{where} cannot run {program[1]!r} as its Python. Name one that is there with spark.pyspark.python"
    lines = [
        line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception|Unreachable|TimedOut)\b.*: ", line)
    ]
    return f"{where} cannot run Python tasks: {(lines or [*text.splitlines(), 'Spark says no more'])[0]}"
