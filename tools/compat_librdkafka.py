"""librdkafka's numbered tests, from the npm package that carries its source: built once, run one by one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import reaching
from apache_kafka import TOOLS, jars_folder
from compat_running import CACHE, Result, Results, execute, must, one_line, unpack

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
KAFKA_VERSION = "4.3.1"

AT_ONCE = 6
TEST_S = 600
HOME = CACHE / "librdkafka"
TESTS = HOME / "deps" / "librdkafka" / "tests"
LEFT_OUT = {
    "0038": "a benchmark",
    "0097": "TLS", "0126": "OAUTHBEARER", "0133": "TLS",
    "017": "share groups", "018": "share groups", "019": "share groups",
    "0150": "telemetry, on a mock cluster", "8000": "never ends", "8001": "by hand",
}  # fmt: skip
"""Numbers, or their first digits, of tests that are not run, with the reason."""
LEFT_OUT_WITHOUT_LOGIN = {"0115": "authorization", "0119": "authorization", "0135": "SASL", "0142": "SASL"}
LEFT_OUT_WITH_LOGIN = {"0142": "its subtests of share groups cannot be left out"}
SUBTESTS = {"0135_sasl_credentials": "do_test:"}
"""Tests of which only some subtests run, those with this in their names: the others are of share groups."""
THREEFOLD = ("0098_consumer_txn", "0101_fetch_from_follower", "0103_transactions")
"""Tests whose topics have three replicas."""
AGAINST_THREE = (
    *THREEFOLD, "0061_consumer_lag", "0129_fetch_aborted_msgs", "0137_barrier_batch_consume"
)  # fmt: skip
IN_GROUPS = re.compile(r"subscribe|group\.id|test_create_consumer|KafkaConsumer::create|test_consume_msgs_easy")
"""Found in the source of every test whose consumers are members of a group, named by the test or by its helpers."""


def prepare() -> None:
    tool_shims()
    config = TESTS.parent / "Makefile.config"
    if (TESTS / "test-runner").exists() and "WITH_RAPIDJSON=\ty" in config.read_text():
        return
    shutil.rmtree(HOME, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    must(["npm", "pack", PACKAGE], cwd=CACHE, log=CACHE / "npm.log")
    unpack(next(CACHE.glob("confluentinc-kafka-javascript-*.tgz")), HOME)
    source = TESTS.parent
    # An installed lz4 or regex library would change what is tested from machine to machine.
    options = ["--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-regex-ext"]
    must(["./configure", *options], cwd=source, log=CACHE / "librdkafka-configure.log")
    must(["make", "-j2", "libs"], cwd=source, log=CACHE / "librdkafka-build.log")
    must(["make", "-j2", "-C", "tests", "build"], cwd=source, log=CACHE / "librdkafka-tests.log")


def tool_shims() -> Path:
    """A folder for `$KAFKA_PATH`: some tests call its `bin/kafka-topics.sh`, which is Apache Kafka's on both sides.

    A test's own Java program is compiled with `$KAFKA_PATH/libs` and run by `kafka-run-class.sh`. A tool has the login
    of the brokers under test by the file that $COMMAND_CONFIG names.
    """
    folder = CACHE / "kafka-tools" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    libs = folder.parent / "libs"
    libs.unlink(missing_ok=True)
    libs.symlink_to(jars_folder().resolve())
    for name, main in {**TOOLS, "kafka-run-class": ""}.items():
        shim = folder / f"{name}.sh"
        options = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        login = '${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} ' if main else ""
        shim.write_text(f'#!/bin/sh\nexec java {options} -cp "{jars_folder()}/*:$CLASSPATH" {main} {login}"$@"\n')
        shim.chmod(0o755)
    return folder.parent


def run(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    results = run_tests("default", bootstrap, folder, only, but=THREEFOLD)
    threefold = [name for name in THREEFOLD if not only or name in only]
    return results | {name: Result("skipped", "topics of three replicas: with three brokers") for name in threefold}


def run_without_auto_create(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    return run_tests("noautocreate", bootstrap, folder, only)


def run_against_three(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    wanted = [name for name in AGAINST_THREE if not only or name in only]
    return run_tests("default", bootstrap, folder, wanted) if wanted else {}


def run_in_consumer_groups(bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    """Run the tests with consumers in groups, with `group.protocol=consumer` as librdkafka's own CI sets it."""
    wanted = [name for name in tests_in_groups() if not only or name in only]
    switch = {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}
    return run_tests("default", bootstrap, folder, wanted, more=switch) if wanted else {}


def tests_in_groups() -> list[str]:
    """The tests that have consumers in groups, without those left out and those with topics of three replicas."""
    left_out = (*LEFT_OUT, *LEFT_OUT_WITHOUT_LOGIN, *THREEFOLD)
    found = []
    for name in tests_of("default"):
        source = "".join(file.read_text() for file in TESTS.glob(f"{name[:4]}-*.c*"))
        if IN_GROUPS.search(source) and not name.startswith(left_out):
            found.append(name)
    return found


def run_tests(
    scenario: str,
    bootstrap: str,
    folder: Path,
    only: Sequence[str],
    but: Sequence[str] = (),
    *,
    more: Mapping[str, str] | None = None,
) -> Results:
    """Run each test in its own process, with `more` in its environment: a failed test ends the whole runner."""
    login = reaching.login()
    config = folder / "librdkafka.conf"
    options = {**reaching.librdkafka(bootstrap), "test.topic.random": "true"}
    config.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    unfit = LEFT_OUT | (LEFT_OUT_WITHOUT_LOGIN if login is None else LEFT_OUT_WITH_LOGIN)
    environment = {
        "LD_LIBRARY_PATH": "../src:../src-cpp", "RDKAFKA_TEST_CONF": str(config), "TEST_SCENARIO": scenario,
        "TEST_KAFKA_VERSION": KAFKA_VERSION, "KAFKA_PATH": str(CACHE / "kafka-tools"), "BROKERS": bootstrap,
        "TEST_LEVEL": "2", "COMMAND_CONFIG": "" if login is None else login.java, **(more or {}),
    }  # fmt: skip
    wanted = [name for name in tests_of(scenario) if (not only or name in only) and name not in but]

    def one(name: str) -> Result:
        left_out = [why for number, why in unfit.items() if name.startswith(number)]
        return Result("skipped", left_out[0]) if left_out else run_test(name, folder, environment)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(one, wanted), strict=True))


def tests_of(scenario: str) -> list[str]:
    """The tests of a scenario that speak to a broker, from the table in their source."""
    source = (TESTS / "test.c").read_text()
    table = source[source.index("struct test tests[] = {") :]
    found = []
    for entry in re.findall(r"_TEST\((\d{4}_\w+),(.*?)(?=_TEST\(|\n};)", table[: table.index("\n};") + 3], re.DOTALL):
        name, options = entry
        scenarios = re.search(r'\.scenario\s*=\s*"([^"]*)"', options)
        if "TEST_F_LOCAL" not in options and scenario in (scenarios[1] if scenarios else "default").split(","):
            found.append(name)
    return found


def run_test(name: str, folder: Path, environment: Mapping[str, str]) -> Result:
    """Run one test. Its number selects variants too (0031_get_offsets_mock); only the named one counts."""
    report, log = folder / f"{name}.json", folder / f"{name}.log"
    report.unlink(missing_ok=True)
    subtests = {"SUBTESTS": SUBTESTS[name]} if name in SUBTESTS else {}
    status = execute(
        ["./test-runner", "-L", "-E", "-p1"], log=log, cwd=TESTS, timeout=TEST_S,
        env={**environment, "TESTS": name, "TEST_REPORT": str(report), **subtests},
    )  # fmt: skip
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    state = "failed"
    if report.exists():
        state = json.loads(report.read_text())["tests"][name]["state"].lower()
    if state in ("passed", "skipped"):
        return Result(state, one_line(reasons(text).get(name, "")))
    return Result("failed", failure(text) or f"ended with {status}")


def failure(log: str) -> str:
    """The first failure in a run's log, and the sentence below it."""
    found = re.search(r'### Test "\w+(?: \((.*)\))?" failed at (\S+) at .* ###\n(.*)', log)
    return one_line(" ".join(part for part in (found[1], found[3]) if part)) if found else ""


def reasons(log: str) -> dict[str, str]:
    """The last column of the table at the end of a run."""
    reasons = {}
    for line in log.splitlines():
        columns = [part.strip() for part in line.split("|")]
        if len(columns) >= 5 and columns[1][:4].isdigit():
            reasons[columns[1]] = columns[4]
    return reasons
