"""Writes docs/reference/compatibility.md from each suite's last run, which tests/compat/results keeps."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import compat_suites
from bench.report import commit_here

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
CLIENTS = {
    "test_confluent": "confluent-kafka (librdkafka)",
    "test_kafka_python": "kafka-python",
    "test_aiokafka": "aiokafka",
    "test_kcat": "kcat of Debian (librdkafka 2.0)",
    "test_node_clients": "kafkajs and @platformatic/kafka, Node 22",
    "test_franz_go": "franz-go 1.22.2, Go 1.26",
    "test_transactional_clients": "librdkafka, kafka-python, aiokafka and Java in transactions",
    "test_java_clients": "Apache Kafka's Java clients and tools 4.3.1",
}
_HEAD = """# Compatibility

Made by `make compat` (tools/compat.py): do not edit. Every suite ran unmodified against `ottla start` and, with the
same settings, against Apache Kafka 4.3.1 (one KRaft node). A test that failed was run a second time by itself, on both
sides. Where leaders move, every topic has three replicas and `min.insync.replicas=2`; every leader moves every four
seconds, those of groups every eight, and every twelve seconds a broker is stopped or killed (kill -9), in turn, and
started again. A suite's row is of its own last run; one that was not run has an empty row. A commit "with changes" ran
with code that was not committed; one of a history that was rebased since is named as it was, and may not be found.
The tests of kafka-python and librdkafka are their authors' files: the source distribution of kafka-python lacks the
module that starts brokers, and a stand-in takes the given address; librdkafka's `test-runner` is built from the source
in Confluent's npm package, and the command line tools that it calls are Apache Kafka's on both sides. The other suites
are tests of this project (tests/compat): clients for Node and Go run in its programs (tests/compat/node and go), and
Java's clients are Apache Kafka's command line tools, Connect, and a Streams program of it (tests/compat/java).
What each test is expected to do, and why where it is not to pass, is in tests/compat/expected.

| suite | ottla | Apache Kafka 4.3.1 | run on | commit | settings |
|---|---|---|---|---|---|
"""
_SECURE_HEAD = """
## With SASL_SSL and ACLs

The same suites and settings by `make compat ARGS="--secure"`. All brokers have one listener with SASL_SSL and the
certificate, the authority and the users that `ottla secure init` makes; ottla's brokers reach one another over it too,
as Apache Kafka's do. All clients log in by SCRAM-SHA-512, as a user who is no super user. An authorizer judges their
requests, with `allow.everyone.if.no.acl.found`. A test whose program cannot be given a login is skipped, and says so.
Where Apache Kafka's column is empty, the suite ran without it.

| suite | ottla | Apache Kafka 4.3.1 | run on | commit |
|---|---|---|---|---|
"""
SECURE = "secure"
"""The folder, in those of results and of expectations, of runs with SASL_SSL."""
Row = Mapping[str, str]


class LastRun(TypedDict):
    """One suite's last whole run, as tests/compat/results keeps it."""

    date: str
    commit: str
    settings: dict[str, str]
    rows: dict[str, dict[str, str]]


def keep(results: Path, suite: compat_suites.Suite, rows: Mapping[str, Row], *, repository: Path = ROOT) -> None:
    """Note down what a whole run of a suite has shown, and which code ran."""
    run = LastRun(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        commit=commit_here(repository),
        settings=dict(suite.settings),
        rows={name: {key: text for key, text in row.items() if text} for name, row in rows.items()},
    )
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{suite.name}.json").write_text(json.dumps(run, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def last_run(results: Path, name: str) -> LastRun:
    file = results / f"{name}.json"
    if not file.exists():
        return LastRun(date="", commit="", settings={}, rows={})
    found: LastRun = json.loads(file.read_text())
    return found


def expected_of(expected: Path, name: str, *, secure: bool = False) -> dict[str, dict[str, str]]:
    """The expectation of a suite's tests; with SASL_SSL that of the folder `secure` comes first."""
    found: dict[str, dict[str, str]] = {}
    for folder in (expected, expected / SECURE) if secure else (expected,):
        file = folder / f"{name}.json"
        found |= json.loads(file.read_text()) if file.exists() else {}
    return found


def rows_of(run: LastRun, known: Mapping[str, Row]) -> dict[str, Row]:
    """A run's rows, each with the reason why the test is not to pass, if an expectation has one."""
    return {name: row | {"why": known.get(name, {}).get("why", "")} for name, row in run["rows"].items()}


def write(results: Path, expected: Path, page: Path = PAGE) -> None:
    """The page, from each suite's last run; an expectation adds why a test is not to pass, and nothing else."""
    parts, everything = [_HEAD], {}
    for suite in compat_suites.SUITES:
        run = last_run(results, suite.name)
        rows = everything[suite.title] = rows_of(run, expected_of(expected, suite.name))
        settings = " ".join(f"`{name}={value}`" for name, value in sorted(run["settings"].items()))
        beside = counts(rows, "ottla"), counts(rows, "kafka"), run["date"], run["commit"], settings
        parts.append(f"| {suite.title} | {' | '.join(beside)} |\n")
    alone, moving, *_ = everything.values()
    parts.append(clients(alone, moving))
    for title, rows in everything.items():
        parts.append(differences(title, rows))
    parts += secured(results, expected, everything)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("".join(parts))


def secured(results: Path, expected: Path, plain: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """The section of the runs with SASL_SSL: a table of them, and the tests that end otherwise than without."""
    head, tables = [_SECURE_HEAD], []
    for suite in compat_suites.SUITES:
        run = last_run(results / SECURE, suite.name)
        rows = rows_of(run, expected_of(expected, suite.name, secure=True))
        beside = counts(rows, "ottla"), counts(rows, "kafka"), run["date"], run["commit"]
        head.append(f"| {suite.title} | {' | '.join(beside)} |\n")
        tables += otherwise(suite.title, rows, plain[suite.title])
    return head + tables


def otherwise(title: str, rows: Mapping[str, Row], plain: Mapping[str, Row]) -> list[str]:
    """A table of the tests whose result with SASL_SSL is another one than without."""
    lines = []
    for name, row in sorted(rows.items()):
        without = plain.get(name, {}).get("ottla", "")
        if row["ottla"] != without:
            why = "" if row["ottla"] == "passed" else row.get("why") or row.get("said") or ""
            shown = why.replace("|", "\\|")
            lines.append(f"| `{name}` | {row['ottla']} | {without} | {row.get('kafka', '')} | {shown} |\n")
    top = "| test | ottla | ottla without | Apache Kafka | why |\n|---|---|---|---|---|\n"
    return [f"\n### {title}, with SASL_SSL\n\n", top, *lines] if lines else []


def counts(rows: Mapping[str, Row], side: str) -> str:
    states = Counter(row.get(side, "") for row in rows.values())
    return ", ".join(f"{states[state]} {state}" for state in ("passed", "failed", "skipped") if states[state])


def clients(alone: Mapping[str, Row], moving: Mapping[str, Row]) -> str:
    """A table of the tests that each client passed, and how many of them while leaders moved."""
    lines = ["\n## Clients\n\n| client | tests that passed | with three brokers while leaders move |\n|---|---|---|\n"]
    for file, client in CLIENTS.items():
        mine = {name.partition("::")[2]: row for name, row in alone.items() if name.startswith(f"{file}::")}
        passed = Counter(name.partition("[")[0] for name, row in mine.items() if row["ottla"] == "passed")
        told = [sentence(name) + (f" ({count} variants)" if count > 1 else "") for name, count in passed.items()]
        there = {name: row for name, row in moving.items() if name.startswith(f"{file}::")}
        lines.append(f"| {client} | {'; '.join(told)} | {counts(there, 'ottla')} |\n")
    return "".join(lines)


def sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def differences(title: str, rows: Mapping[str, Row]) -> str:
    """Every test that did not pass here, with its result on Apache Kafka."""
    lines = [f"\n## {title}\n\n"]
    if not rows:
        return lines[0] + "Not run.\n"
    odd = {name: row for name, row in sorted(rows.items()) if row["ottla"] != "passed"}
    if not odd:
        return lines[0] + "Everything passed.\n"
    lines.append("| test | ottla | Apache Kafka | why |\n|---|---|---|---|\n")
    for name, row in odd.items():
        why = (row.get("why") or row.get("said") or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {row['ottla']} | {row.get('kafka', '')} | {why} |\n")
    return "".join(lines)
