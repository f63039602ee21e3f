"""Writes one record: text or JSON, or by the latest schema of a subject; a tombstone; an existing record again."""

from __future__ import annotations

import asyncio
import json
import shlex

from ottla.client.aio.producer import Producer
from ottla.client.produce.settings import ProducerSettings
from ottla.console.change import AskedChange
from ottla.console.desk import Desk
from ottla.console.messages import partitions_of
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, wrong

PARAMETERS = ("topic", "key", "value", "headers", "partition")


async def form(desk: Desk, query: PageQuery) -> View:
    """The page to write a record on; its parameters fill it in."""
    topic = query.need("topic")
    values = {
        "topic": topic,
        "partitions": await partitions_of(desk, topic),
        "filled": {name: query.given.get(name, "") for name in PARAMETERS},
        "has_registry": desk.setting.registry is not None,
    }
    return View("produce.html", f"Produce to {topic}", values)


async def produce(desk: Desk, query: PageQuery) -> AskedChange:
    """One record more."""
    topic, tombstone = query.need("topic"), query.flag("tombstone")
    partitions = await partitions_of(desk, topic)
    text, schema = query.given.get("value", "").replace("\r\n", "\n"), query.text("schema")
    if tombstone and (text or schema):
        raise wrong("a tombstone has no value: leave value and schema empty")
    partition = None if not query.text("partition") else query.count("partition", 0, most=partitions[-1])
    headers = _headers(query.given.get("headers", ""))
    key = query.given.get("key") or None
    value = None if tombstone else await _written(desk, topic, text, schema) if schema else text.encode()

    async def carry_out() -> str:
        settings = ProducerSettings(allow_auto_create_topics=False)
        async with Producer(desk.setting.bootstrap, producer=settings, settings=desk.client) as producer:
            future = await producer.produce(topic, value, key, partition=partition, headers=headers)
            placed = await future
        return f"The record is in {topic}-{placed.partition} at offset {placed.offset:,}."

    words = ["ottla", "produce", topic]
    words += [] if schema else ["--tombstone"] if tombstone else ["--values", text]
    words += ["-k", key] if key else []
    words += [word for name, content in headers for word in ("-H", f"{name}={content}")]
    words += ["-p", str(partition)] if partition is not None else []
    words += ["--input", "jsonl", "--schema", schema] if schema else []
    line = f"echo {shlex.quote(json.dumps(json.loads(text), ensure_ascii=False))} | " if schema else ""
    size = "no value (a tombstone)" if value is None else f"a value of {len(value):,} bytes"
    lines = [f"Key: {'none' if key is None else key}; {size}; {len(headers)} headers."]
    command = line + shlex.join([*words, "-b", desk.setting.bootstrap])
    back = url("messages", topic=topic)
    return AskedChange(f"Write a record to {topic}", command, carry_out, back, lines)


def _headers(text: str) -> list[tuple[str, str]]:
    """NAME=VALUE, a line each; a name may come several times."""
    found = []
    for line in filter(None, text.splitlines()):
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise wrong(f"the header {line!r} is not NAME=VALUE")
        found.append((name, value))
    return found


async def _written(desk: Desk, topic: str, text: str, wish: str) -> bytes:
    """The bytes of JSON by a schema: `latest` of TOPIC-value, a subject's latest, or an id."""
    from ottla.formats.console import BadPayload, ValueEncoder

    client = desk.registry()
    try:
        fields = json.loads(text)
    except ValueError as fault:
        raise wrong(f"the value is no JSON: {fault}") from None

    def write() -> bytes:
        if wish.isascii() and wish.isdecimal():
            schema, schema_id = client.schema(int(wish)), int(wish)
        else:
            latest = client.latest(f"{topic}-value" if wish == "latest" else wish)
            schema, schema_id = latest.schema, latest.schema_id
        encoder = ValueEncoder(schema, schema_id, text=False)
        return encoder.encode(fields, lambda value: json.dumps(value, ensure_ascii=False).encode())

    try:
        return await asyncio.to_thread(write)
    except (BadPayload, LookupError, ValueError) as fault:
        raise wrong(f"schema {wish}: {fault}") from None
