"""Writes docs/reference/compatibility.md from what `tools/compat.py` saw and what tests/compat/expected explains."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import compat_suites

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "compatibility.md"
CLIENTS = {
    "test_confluent": "confluent-kafka (librdkafka)",
    "test_kafka_python": "kafka-python",
    "test_aiokafka": "aiokafka",
    "test_kcat": "kcat of Debian (librdkafka 2.0)",
    "test_node_clients": "kafkajs and @platformatic/kafka, Node 22",
    "test_transactional_clients": "librdkafka, kafka-python, aiokafka and Java in transactions",
    "test_java_clients": "Apache Kafka's Java clients and tools 4.3.1",
}
_HEAD = """# Compatibility

Made by `make compat` (tools/compat.py): do not edit. Every suite ran unmodified against `ottla start` and, with the
same settings, against Apache Kafka 4.3.1 (one KRaft node). A test that failed was run a second time by itself, on both
sides. Suites that the last run left out are shown as their expectation has them. With three brokers every topic has
three replicas and `min.insync.replicas=2`; every leader moves every four seconds, those of groups every eight, and
every twelve seconds a broker is stopped or killed (kill -9), in turn, and started again.
What each test is expected to do, and why where it is not to pass, is in tests/compat/expected.

"""
Row = Mapping[str, str]


def write(seen: Mapping[str, Mapping[str, Row]], expected: Path) -> None:
    """The page, from the suites that ran and, for those that did not, from their expectation."""
    parts = [_HEAD, "| suite | ottla | Apache Kafka 4.3.1 |\n|---|---|---|\n"]
    everything: dict[str, dict[str, dict[str, str]]] = {}
    for suite in compat_suites.SUITES:
        file = expected / f"{suite.name}.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        rows = {name: {**known.get(name, {}), **row} for name, row in (seen.get(suite.name) or known).items()}
        everything[suite.title] = rows
        parts.append(f"| {suite.title} | {counts(rows, 'ottla')} | {counts(rows, 'kafka')} |\n")
    alone, moving, *_ = everything.values()
    parts.append(clients(alone, moving))
    for title, rows in everything.items():
        parts.append(differences(title, rows))
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("".join(parts))


def counts(rows: Mapping[str, Row], side: str) -> str:
    states = Counter(row.get(side, "") for row in rows.values())
    return (
        ", ".join(f"{states[state]} {state}" for state in ("passed", "failed", "skipped") if states[state]) or "not run"
    )


def clients(alone: Mapping[str, Row], moving: Mapping[str, Row]) -> str:
    """What each client was seen to do, and how much of it while leaders moved."""
    lines = ["\n## Clients\n\n| client | tests that passed | with three brokers while leaders move |\n|---|---|---|\n"]
    for file, client in CLIENTS.items():
        mine = {name.partition("::")[2]: row for name, row in alone.items() if name.startswith(f"{file}::")}
        passed = Counter(name.partition("[")[0] for name, row in mine.items() if row["ottla"] == "passed")
        told = [sentence(name) + (f" ({count} variants)" if count > 1 else "") for name, count in passed.items()]
        there = {name: row for name, row in moving.items() if name.startswith(f"{file}::")}
        lines.append(f"| {client} | {'; '.join(told) or 'none'} | {counts(there, 'ottla')} |\n")
    return "".join(lines)


def sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def differences(title: str, rows: Mapping[str, Row]) -> str:
    """Everything that did not pass here, with what Apache Kafka made of it."""
    lines = [f"\n## {title}\n\n"]
    odd = {name: row for name, row in sorted(rows.items()) if row["ottla"] != "passed"}
    if not odd:
        return lines[0] + "Everything passed.\n"
    lines.append("| test | ottla | Apache Kafka | why |\n|---|---|---|---|\n")
    for name, row in odd.items():
        why = (row.get("why") or row.get("said") or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {row['ottla']} | {row.get('kafka') or 'not run'} | {why} |\n")
    return "".join(lines)
