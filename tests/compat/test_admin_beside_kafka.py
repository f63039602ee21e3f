"""Topics, options and the cluster beside Apache Kafka 4.3.1: the same requests, the answers compared leaf by leaf.

Kafka's answers are kept in `admin_as_kafka_answers.json`; `OTTLA_REWRITE=1` rewrites it from a running Kafka.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_scenes import QUESTIONS
from apache_kafka import ApacheKafka
from group_dialogue import Wire

from ottla.testing import TestBroker

KEPT = Path(__file__).with_name("admin_as_kafka_answers.json")
PATIENCE_S = 60.0
OURS = ("deletion.protection", "write.caching")
_NOT_COMPARED = {"throttle_time_ms", "topic_id", "cluster_id", "host", "port", "log_end_offset", "documentation"}
Leaves = dict[str, str]

_CLUSTER_DEFAULT = "[min.insync.replicas]"
"""From its first start on, Kafka stores min.insync.replicas as an option of all brokers; here it is a default until
it is set. So its source and one synonym differ."""


def leaves(value: object, path: str = "") -> Leaves:
    """Every value of an answer by its path; elements of lists are named, as Kafka keeps them in maps."""
    fields = getattr(type(value), "__slots__", None)
    found: Leaves = {}
    if isinstance(value, list):
        for index, each in enumerate(value):
            name = _name(each)
            if name not in OURS:
                found |= leaves(each, f"{path}[{index if name is None else name}]")
    elif fields is None:
        found[path] = repr(int(value)) if isinstance(value, int) else repr(value)
    else:
        for name in fields:
            if name not in _NOT_COMPARED:
                found |= leaves(getattr(value, name), f"{path}.{name}")
    return found


def _name(value: object) -> str | None:
    for field in ("name", "topic_name", "resource_name", "topic"):
        if (name := getattr(value, field, None)) is not None:
            source = getattr(value, "source", None)
            return str(name) if source is None else f"{name} of source {source}"
    return None


def asked(port: int, expected: dict[str, Leaves] | None = None) -> dict[str, Leaves]:
    """Ask all questions in their order. Kafka's brokers apply an edit a moment after its answer, so questions about it
    are repeated until the answer is as `expected`."""
    wire = Wire(port)
    answers = {}
    for question in QUESTIONS:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = leaves(wire.ask(question.version, question.request))
            late = (
                expected is not None
                and question.title.startswith("describe")
                and answer != expected.get(question.title)
            )
            if not late or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        answers[question.title] = answer
    wire.close()
    return answers


@pytest.fixture(scope="module")
def ottla() -> Iterator[dict[str, Leaves]]:
    with TestBroker() as broker:
        yield asked(int(broker.bootstrap_servers.rpartition(":")[2]))


@pytest.fixture(scope="module")
def kafka() -> Iterator[dict[str, Leaves]]:
    with ApacheKafka({}) as node:
        yield asked(node.port, {} if os.environ.get("OTTLA_REWRITE") else kept())


def kept() -> dict[str, Leaves]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


@pytest.mark.parametrize("title", [question.title for question in QUESTIONS])
def test_ottla_answers_as_apache_kafka_does(title: str, ottla: dict[str, Leaves]):
    assert without_cluster_default(ottla[title]) == without_cluster_default(kept()[title])


def without_cluster_default(answer: Leaves) -> Leaves:
    def differs(path: str) -> bool:
        return _CLUSTER_DEFAULT in path and (path.endswith(".config_source") or "of source 3" in path)

    return {path: value for path, value in answer.items() if not differs(path)}


@pytest.mark.kafka
@pytest.mark.slow
def test_apache_kafka_answers_as_it_is_remembered(kafka: dict[str, Leaves]):
    if os.environ.get("OTTLA_REWRITE"):
        KEPT.write_text(json.dumps(kafka, indent=1, ensure_ascii=False) + "\n")
    assert kafka == kept()


def test_every_question_has_a_title_of_its_own_and_an_answer_that_says_something():
    titles = [question.title for question in QUESTIONS]
    assert len(titles) == len(set(titles)) > 100
    assert set(kept()) == set(titles)
    assert all(kept().values())
