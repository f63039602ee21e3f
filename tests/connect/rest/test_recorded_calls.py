"""The calls that a worker of Apache Kafka 4.3.1 was sent, in their order: ours answers alike but for one table."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
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
        ("there are no mirror connectors of Kafka's here", [34, 378, 379, 381]),
        ("there is an Avro converter here", [28, 29]),
        ("the loggers are Python's", [391, 411]),
    )
    for number in numbers
}  # fmt: skip
"""Calls whose answers differ, and why."""


@cache
def recorded() -> list[dict[str, Any]]:
    if not CALLS.exists():
        pytest.skip("real input is not here: the recorded answers of a Connect worker")
    lines = [json.loads(line) for line in CALLS.read_text().splitlines()]
    return [line for line in lines if line.get("mode") == "distributed"]


async def asked(app: ConnectApp, call: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
    path, _, query = call["path"].partition("?")
    body = call.get("body")
    headers = {"host": WORKER}
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
        rows = [each for each in rows if not re.search(r"Mirror|Jdbc|io\.debezium|ottla\.connect\.", json.dumps(each))]
        return sorted(rows, key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, str):
        value = re.sub(r"which name matches (\S+?),? .*", r"which name matches \1", value, flags=re.DOTALL)
        return re.sub(r"\{(.*=.*)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", value)
    return value


def methods(value: Any) -> Any:
    return sorted(value.split(", ")) if isinstance(value, str) else value


async def replayed() -> dict[int, tuple[tuple[int, Any], tuple[int, Any]]]:
    """The answers that differ: those that were recorded, and ours."""
    worker = FakeWorker()
    worker.faults = {
        "<dir>/no/such/dir/out.txt": "org.apache.kafka.connect.errors.ConnectException: Couldn't find or create file "
        "'<dir>/no/such/dir/out.txt' for FileStreamSinkTask\n<trace>",
        "<dir>/smt.txt": "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
        "<trace>",
    }
    worker.source_offsets.apply(b'["lines-in",{"filename":"<dir>/in.txt"}]', b'{"position":792}')
    worker.sink_offsets = {"lines-out": {TopicPartition("lines", 0): 100}}
    logging.getLogger("org.apache.kafka.connect.runtime.Worker")
    app, known, different = ConnectApp(worker), definitions(), {}
    for call in recorded():
        wanted = call.get("response")
        if call["method"] == "DELETE" and call["status"] == 400 and wanted is None:  # it would be gone here
            different[call["n"]] = ((400, None), (204, None))
            continue
        status, body, headers = await asked(app, call)
        if call["method"] == "OPTIONS":
            wanted, body = methods(wanted), methods(body)
        same = comparable(body, known) == comparable(wanted, known)
        place = call["headers"].get("location")
        if status != call["status"] or not same or (place and place != headers.get("Location")):
            different[call["n"]] = ((call["status"], wanted), (status, body))
    return different


def test_every_recorded_call_is_answered_alike_but_for_those_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.Logger.manager, "loggerDict", {})  # other tests' libraries have loggers too
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.INFO)
    try:
        different = asyncio.run(replayed())
    finally:
        logging.getLogger().setLevel(level)
    unforeseen = {number: pair for number, pair in different.items() if number not in DIFFERENT}
    assert not unforeseen, "\n".join(f"{number}: {pair}" for number, pair in unforeseen.items())
    assert set(DIFFERENT) == set(different), "these are answered alike by now; take them out of the table"
