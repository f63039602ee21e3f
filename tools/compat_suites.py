"""The suites of `tools/compat.py`: what each fetches, how it runs against one address, and with which settings.

librdkafka's own tests are in compat_librdkafka.py.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import compat_librdkafka as rdkafka
import franz_go
from apache_kafka import ApacheKafka
from compat_running import CACHE, ROOT, Results, SuiteFailed, execute, from_junit, must, unpack
from moving_leaders import apache_moving, ottla_moving
from ottla_process import TemporaryBroker
from secured_brokers import SecuredBrokers
from streams_jars import streams_jars
from three_brokers import SELECTOR, ApacheCluster, TemporaryCluster

KAFKA_PYTHON = "3.0.12"

_OWN_TESTS_S = 3600


class Reached(Protocol):
    """Brokers with an address for clients."""

    @property
    def bootstrap(self) -> str: ...


class Watched(Reached, Protocol):
    """Brokers that are watched: `running` is false once one of them has ended by itself."""

    @property
    def running(self) -> bool: ...
    def last_words(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Suite:
    """`run(bootstrap, folder, only)` leaves its logs in the folder; `only` narrows it to some tests, if it is given.

    A suite's clients take their login from the environment (reaching.py).
    """

    name: str
    title: str
    prepare: Callable[[], None]
    run: Callable[[str, Path, Sequence[str]], Results]
    settings: Mapping[str, str]
    ottla: Callable[[Mapping[str, str], SecuredBrokers | None], AbstractContextManager[Watched]] = TemporaryBroker
    kafka: Callable[[Mapping[str, str], SecuredBrokers | None], AbstractContextManager[Reached]] = ApacheKafka


# Clients: this project's own tests of other people's clients.


CLIENTS = (
    "confluent", "kafka_python", "aiokafka", "kcat", "node_clients", "franz_go", "java_clients", "transactional_clients"
)  # fmt: skip


def prepare_clients() -> None:
    node = ROOT / ".cache" / "node"
    modules = node / "node_modules"
    if not (modules / "kafkajs").exists() or not (modules / "@platformatic" / "kafka").exists():
        node.mkdir(parents=True, exist_ok=True)
        packages = ["node@22", "kafkajs@2.2.4", "@platformatic/kafka@2"]
        must(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(node), *packages], log=CACHE / "npm.log")
    for missing in [program for program in ("kcat", "java") if shutil.which(program) is None]:
        raise SuiteFailed(f"{missing} is missing: install it with the system's package manager")
    # Compiled before any test's time runs; where this fails, the tests that need it say why.
    CACHE.mkdir(parents=True, exist_ok=True)
    if franz_go.GO.exists():
        build = [str(franz_go.GO), "build", "-buildvcs=false", "-o", os.devnull, "."]
        execute(build, cwd=franz_go.SOURCE, log=CACHE / "go.log", timeout=600)


def run_clients(bootstrap: str, folder: Path, only: Sequence[str], *options: str) -> Results:
    return run_own(CLIENTS, bootstrap, folder, only, *options)


def run_own(clients: Sequence[str], bootstrap: str, folder: Path, only: Sequence[str], *options: str) -> Results:
    """Run tests of clients; each topic has a replica on all brokers behind the address."""
    environment = {"OTTLA_COMPAT_BOOTSTRAP": bootstrap, "KAFKA_VERSION": "", "KAFKA_URI": ""}
    environment["OTTLA_COMPAT_BROKERS"] = str(len(bootstrap.split(",")))
    report = folder / "clients.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "compat or not compat", f"--junitxml={report}"]
    command += ["-p", "no:cacheprovider", *options, *(f"tests/compat/test_{client}.py" for client in clients)]
    command += ["-k", " or ".join(name.partition("::")[2].partition("[")[0] for name in only)] if only else []
    execute(command, log=folder / "clients.log", timeout=_OWN_TESTS_S, env=environment)
    return from_junit(report)


def run_clients_apart(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    """Run each test in its own process: a client that hangs in compiled code fails only its own test."""
    return run_clients(bootstrap, folder, only, "-n", "2", "--timeout", "180", "--timeout-method", "thread")


# Kafka Streams and Connect: this project's own tests of their exactly-once processing.


def prepare_streams() -> None:
    if not list(streams_jars().glob("kafka-streams-*.jar")):
        raise SuiteFailed("the jars of Kafka Streams are missing: run `tools/setup.sh streams-jars`")


def run_streams(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    return run_own(("kafka_streams", "connect"), bootstrap, folder, only)


# kafka-python's integration tests, from its source distribution.

KAFKA_PYTHON_HOME = CACHE / "kafka-python"
SERVICE = '''"""Stands in for a module that the source distribution leaves out: brokers run elsewhere."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def dump_logs(self):
        pass

    def stop(self):
        pass


class SpawnedService:
    def __init__(self, *_):
        raise RuntimeError("these tests run against a broker that is there already")
'''


def prepare_kafka_python() -> None:
    if (KAFKA_PYTHON_HOME / "test" / "service.py").exists():
        return
    shutil.rmtree(KAFKA_PYTHON_HOME, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    must([*pip, "install", "-q", "py"], log=CACHE / "pip.log")
    wanted = ["download", "-q", "--no-deps", "--no-binary", ":all:", f"kafka-python=={KAFKA_PYTHON}", "-d", str(CACHE)]
    must([*pip, *wanted], log=CACHE / "pip.log")
    unpack(next(CACHE.glob(f"kafka_python-{KAFKA_PYTHON}.tar.gz")), KAFKA_PYTHON_HOME)
    shutil.rmtree(KAFKA_PYTHON_HOME / "kafka")  # the installed one is what is tested
    (KAFKA_PYTHON_HOME / "test" / "__init__.py").touch()
    (KAFKA_PYTHON_HOME / "test" / "service.py").write_text(SERVICE)


def run_kafka_python(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    report = folder / "kafka-python.xml"
    environment = {"KAFKA_URI": f"kafka://{bootstrap}", "KAFKA_VERSION": "4.3.0", "KAFKA_ROOT": str(KAFKA_PYTHON_HOME)}
    environment["PYTHONPATH"] = str(ROOT / "tests" / "compat")
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(KAFKA_PYTHON_HOME), "-p", "no:cacheprovider"]
    command += ["-p", "kafka_python_login"]
    command += ["--timeout", "120", f"--junitxml={report}", "test/integration", "-o", "addopts="]
    command += ["--ignore", "test/integration/test_ssl_integration.py"]  # starts brokers of its own
    command += ["-k", " or ".join(name.partition("::")[2].partition("[")[0] for name in only)] if only else []
    execute(command, log=folder / "kafka-python.log", cwd=KAFKA_PYTHON_HOME, timeout=1500, env=environment)
    return from_junit(report)


QUICK = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
REPLICATED = {
    "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
}  # fmt: skip
BY_RACK = {SELECTOR: "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
AS_CLASSIC = {
    "group.consumer.session.timeout.ms": "6000", "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "3000", "group.consumer.min.heartbeat.interval.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
}  # fmt: skip
"""The timeouts that librdkafka's tests give to members of classic groups, and targets computed at once.

The tests are older than the interval between assignments (Apache Kafka 4.3) and allow 30 s for a handful of
rebalances. A member of a consumer group has its timeouts from the broker, whose defaults are 45 s and 5 s.
"""
SUITES = (
    Suite("clients", "Unmodified clients", prepare_clients, run_clients, QUICK),
    Suite(
        "three-brokers", "The same against three brokers, while leaders move and brokers go", prepare_clients,
        run_clients_apart, QUICK, ottla_moving, apache_moving,
    ),
    Suite(
        "kafka-python", f"kafka-python {KAFKA_PYTHON}: its integration tests", prepare_kafka_python, run_kafka_python,
        {**QUICK, "num.partitions": "4"},
    ),
    Suite(
        "librdkafka", "librdkafka 2.15.1: its numbered tests", rdkafka.prepare, rdkafka.run,
        {**QUICK, "num.partitions": "4"},
    ),
    Suite(
        "librdkafka-noautocreate",
        "librdkafka 2.15.1: its tests for brokers that make no topics by themselves, against three brokers",
        rdkafka.prepare, rdkafka.run_without_auto_create,
        {**QUICK, **REPLICATED, "num.partitions": "4", "auto.create.topics.enable": "false"},
        TemporaryCluster, ApacheCluster,
    ),
    Suite(
        "librdkafka-transactions",
        "librdkafka 2.15.1: its tests in transactions and of reading from followers, against three brokers",
        rdkafka.prepare, rdkafka.run_against_three,
        {**QUICK, **REPLICATED, **BY_RACK, "num.partitions": "4"},
        TemporaryCluster, ApacheCluster,
    ),
    Suite(
        "streams", "Kafka Streams with exactly_once_v2, Connect with an exactly-once source, through kill -9",
        prepare_streams, run_streams, {**QUICK, "transaction.state.log.num.partitions": "3"},
    ),
    Suite(
        "librdkafka-consumer-groups", "librdkafka 2.15.1: its tests with consumer groups (KIP-848)",
        rdkafka.prepare, rdkafka.run_in_consumer_groups, {**QUICK, **AS_CLASSIC, "num.partitions": "4"},
    ),
)  # fmt: skip
