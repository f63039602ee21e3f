"""The calls that a worker of Apache Kafka 4.3.1 was sent, in their order: ours answers alike but for one table."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.connect.rest.fake_worker import WORKER, FakeWorker

from ottla.connect.rest.app import ConnectApp
from ottla.kernel.ids import TopicPartition
from ottla.web.exchange import HttpError, Request


def _sibling() -> Path:
    """The folder `shared/data` beside the tree, or above it."""
    return next((up / "shared" / "data" for up in Path(__file__).parents if (up / "shared" / "data").exists()), Path())


DATA = Path(os.environ.get("OTTLA_SHARED_DATA") or _sibling())
CALLS = DATA / "connect-rest.jsonl"


DIFFERENT: dict[int, str] = {
    number: reason
    for reason, numbers in (
        ("ours does not listen before it can answer", [1, 2, 3]),
        (
            "Kafka's server refuses such paths, so names with / and % can be made and never used; here they can",
            [17, 132, 134, 141, 142, 145, 146, 152, 154],
        ),
        (
            "Kafka shows the words of its JSON library or of a null pointer; ours name the mistake",
            [67, 81, 82, 83, 84, 85, 108, 115, 116, 118, 119, 120, 121, 213, 214, 215, 232, 233, 272, 273, 274, 282,
             405, 406],
        ),
        ("Kafka answers 500, or puts Java's exception before the sentence; here it is 400", [62, 63, 64, 212, 225]),
        ("Kafka answers 500 to an override that cannot be parsed; here the task fails that uses it", [75]),
        ("Kafka takes a batch.size of -1; here the plugin refuses it, and a null", [66, 113]),
        ("Java's mark below the place of the fault", [59]),
        ("our sentence goes on with the nearest class", [71]),
        ("Kafka lets PATCH put another name into a configuration; that is refused here", [234]),
        ("Kafka answers 500 while it rebalances; here a configuration can be read at once", [240]),
        ("the words of the plugin's own check", [265, 266, 267, 268]),
        ("Kafka sometimes shows a removed offset as null", [277]),
        ("the status of a deleted connector is gone at once here", [385]),
        ("mirrors have other options than Kafka's, and their connector never fails, but its task may", [34, 379]),
        ("there is an Avro converter here", [28, 29]),
        ("the loggers are Python's", [391, 411]),
    )
    for number in numbers
}  # fmt: skip
"""Calls whose answers differ, and why."""
_ALIKE_ALONE = (240, 277, 385)
DIFFERENT_ALONE: dict[int, str] = {number: reason for number, reason in DIFFERENT.items() if number not in _ALIKE_ALONE}
DIFFERENT_ALONE |= {
    73: "Kafka's worker alone takes a connector that must deliver exactly once, and does not; here it is refused",
    321: "Kafka answers 500 for a connector that is not there; here it is 404, as in a group",
    339: "Kafka shows the words of a null pointer; here it is 404, as in a group",
    378: "Kafka asks for the clusters of a mirror while it makes the connector; here the task does",
    345: "the words of a worker in a group",
    347: "Kafka answers 500 for a connector that is not there; here it is 404, as in a group",
    357: "Kafka makes a failed task of a number that somebody asked to restart",
}
DIFFERENT_ON_TWO: dict[int, str] = {
    439: "Kafka sometimes shows no version of a task on another worker",
    445: "Kafka sometimes shows no version of a task on another worker",
    483: "the task uses its topic again before the next call",
    484: "the task uses its topic again before the next call",
    496: "Kafka's workers cannot write once their leader is killed; here any worker can",
    497: "Kafka's workers cannot write once their leader is killed; here any worker can",
    499: "Kafka's workers cannot write once their leader is killed; here any worker can",
    500: "the connector was made by the call before, which Kafka had refused",
}
LATE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "<dir>/in.txt", "topic": "late",
        "exactly.once.support": "required", "transaction.boundary": "poll"}  # fmt: skip
"""The body of the calls after the kill, which was not written down."""


@cache
def lines_of(mode: str) -> list[dict[str, Any]]:
    """The lines of a mode of Kafka's worker, whose name begins so."""
    if not CALLS.exists():
        pytest.skip("real input is not here: the recorded answers of a Connect worker")
    lines = [json.loads(line) for line in CALLS.read_text().splitlines()]
    return [line for line in lines if line.get("mode", "").split(", exactly")[0].split(", topic")[0] == mode]


def recorded() -> list[dict[str, Any]]:
    return lines_of("distributed")


def recorded_alone() -> list[dict[str, Any]]:
    """The same calls with the answers of a standalone worker, of which only those that differ were written down."""
    alone = {line["differs_from"]: line for line in lines_of("standalone")}
    return [call | {"n": call["n"], **_answer_of(alone.get(call["n"], call))} for call in recorded()]


def _answer_of(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("status", "headers", "response", "number") if name in line}


async def asked(app: ConnectApp, call: dict[str, Any], host: str = WORKER) -> tuple[int, Any, dict[str, str]]:
    path, _, query = call["path"].partition("?")
    body = call.get("body")
    headers = {"host": host}
    if "body" in call:
        headers["content-type"] = "application/json"
    for name, value in call.get("request_headers", {}).items():
        headers.pop(name.lower(), None)
        if value is not None:
            headers[name.lower()] = value
    content = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    if "body" in call and body is None:
        content = b"null"
    request = Request(call["method"], path, query, headers, content)
    try:
        response = await app(request)
    except HttpError as refusal:
        response = refusal.response()
    assert isinstance(response.body, bytes)
    text = response.body.decode()
    if call["method"] == "HEAD" or not text:
        return response.status, None, dict(response.headers)
    return (
        response.status,
        json.loads(text) if response.media_type == "application/json" else text,
        dict(response.headers),
    )


def definitions() -> dict[tuple[int, str], Any]:
    """The definitions of options by call and name, to which later calls refer."""
    return {
        (call["n"], each["definition"]["name"]): each["definition"]
        for call in recorded()
        if isinstance(call.get("response"), dict)
        for each in call["response"].get("configs", ())
        if "as_in" not in each["definition"]
    }


_NOT_RECORDED = re.compile(r"Mirror|io\.debezium|connect\.(elasticsearch|hdfs|jdbc|s3)\.|ottla\.connect\.")


def comparable(value: Any, known: dict[tuple[int, str], Any]) -> Any:
    """An answer without what may differ: the orders of hash maps, documentation, lists of known plugins."""
    if isinstance(value, dict):
        if isinstance(value.get("last_modified"), int):
            value = value | {"last_modified": "<ms>"}
        if "as_in" in value:
            value = known[value["as_in"], value["name"]]
        return {
            name: comparable(each, known) for name, each in value.items() if name not in ("documentation", "commit")
        }
    if isinstance(value, list):
        rows = [comparable(each, known) for each in value]
        rows = [each for each in rows if not _NOT_RECORDED.search(json.dumps(each))]
        return sorted(rows, key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, str):
        value = masked(value)
        value = re.sub(r"which name matches (\S+?),? .*", r"which name matches \1", value, flags=re.DOTALL)
        return re.sub(r"\{(.*=.*)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", value)
    return value


def methods(value: Any) -> Any:
    return sorted(value.split(", ")) if isinstance(value, str) else value


FAULTS = {
    "<dir>/no/such/dir/out.txt": "org.apache.kafka.connect.errors.ConnectException: Couldn't find or create file "
    "'<dir>/no/such/dir/out.txt' for FileStreamSinkTask\n<trace>",
    "<dir>/smt.txt": "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n<trace>",
}
Pair = tuple[tuple[int, Any], tuple[int, Any]]
"""The recorded status and body, and ours."""


def a_worker(**more: bool) -> FakeWorker:
    worker = FakeWorker(**more)
    worker.faults = FAULTS
    worker.source_offsets.apply(b'["lines-in",{"filename":"<dir>/in.txt"}]', b'{"position":792}')
    worker.sink_offsets = {"lines-out": {TopicPartition("lines", 0): 100}}
    return worker


async def replayed(worker: FakeWorker, calls: list[dict[str, Any]]) -> dict[int, Pair]:
    """The answers that differ."""
    logging.getLogger("org.apache.kafka.connect.runtime.Worker")
    app, different = ConnectApp(worker), {}
    for call in calls:
        if call["method"] == "DELETE" and call["status"] == 400 and call.get("response") is None:
            different[call["n"]] = ((400, None), (204, None))  # it would be gone here
        elif pair := await compared(app, call):
            different[call["n"]] = pair
    return different


async def compared(app: ConnectApp, call: dict[str, Any], host: str = WORKER) -> Pair | None:
    """Both answers where they differ."""
    known, wanted = definitions(), call.get("response")
    wanted = None if wanted == "" else wanted
    status, body, headers = await asked(app, call, host)
    if call["method"] == "OPTIONS":
        wanted, body = methods(wanted), methods(body)
    same = comparable(body, known) == comparable(wanted, known)
    place = call["headers"].get("location")
    if status != call["status"] or not same or (place and masked(place) != masked(headers.get("Location"))):
        return (call["status"], wanted), (status, body)
    return None


def masked(text: str | None) -> str | None:
    """Text without the number of its worker: which one has a task is left to the group."""
    return None if text is None else re.sub(r"<worker \w>", WORKER, text)


@pytest.fixture
def _few_loggers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logging.Logger.manager, "loggerDict", {})  # other tests' libraries have loggers too
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.INFO)
    yield
    logging.getLogger().setLevel(level)


def require(different: dict[int, Pair], table: dict[int, str]) -> None:
    """Exactly the calls of a table are answered differently."""
    unforeseen = {number: pair for number, pair in different.items() if number not in table}
    assert not unforeseen, "\n".join(f"{number}: {pair}" for number, pair in unforeseen.items())
    assert set(table) == set(different), "some are answered alike by now; take them out of the table"


@pytest.mark.usefixtures("_few_loggers")
def test_every_recorded_call_is_answered_alike_but_for_those_in_the_table() -> None:
    require(asyncio.run(replayed(a_worker(), recorded())), DIFFERENT)


@pytest.mark.usefixtures("_few_loggers")
def test_a_worker_alone_answers_as_kafkas_does_but_for_those_in_the_table() -> None:
    worker = a_worker(is_alone=True, tracks_topics=False)
    require(asyncio.run(replayed(worker, recorded_alone())), DIFFERENT_ALONE)


@pytest.mark.usefixtures("_few_loggers")
def test_two_workers_of_a_group_answer_alike_but_for_those_in_the_table() -> None:
    require(asyncio.run(replayed_on_two()), DIFFERENT_ON_TWO)


async def replayed_on_two() -> dict[int, Pair]:
    """The calls to two workers that share their topics; the second one is asked where the first was killed."""
    one = FakeWorker(exactly_once=True)
    one.source_offsets.apply(b'["src-a",{"filename":"<dir>/in.txt"}]', b'{"position":792}')
    one.source_offsets.apply(b'["own-offsets",{"filename":"<dir>/in.txt"}]', b'{"position":792}')
    apps = {"a": ConnectApp(one), "b": ConnectApp(FakeWorker(exactly_once=True, resets_topics=False, beside=one))}
    different: dict[int, Pair] = {}
    for call in lines_of("distributed, two workers"):
        to = re.match(r"worker (\w)", call.get("note") or "")
        name = to[1] if to else "b" if "kill -9" in (call.get("note") or "") else "a"
        late = {"body": LATE} if call["path"] == "/connectors/late/config" else {}
        if pair := await compared(apps[name], call | late, f"<worker {name}>"):
            different[call["n"]] = pair
    return different
