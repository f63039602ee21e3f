"""Pages of records: the newest, the oldest, from an offset or a time on, and searches. One record alone as a file."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from urllib.parse import urlencode

from ottla.client.errors import refused
from ottla.console import conditions
from ottla.console.conditions import wanted
from ottla.console.desk import Desk
from ottla.console.scan import newest_or_oldest
from ottla.console.search import PLACES, Search, as_row, search_of, spans_of
from ottla.console.values import ShownRecord
from ottla.console.view import PageQuery, Values, View, wrong
from ottla.web.exchange import HttpError, Response

PARAMETERS = ("topic", "from", "offset", "since", "partition", "count", "committed", *conditions.PARAMETERS)
COUNTS = ("50", "100", "500")
_MOST_PAGE = 500


async def messages(desk: Desk, query: PageQuery) -> View:
    """The records of a topic; where conditions are given, a search that the page then watches."""
    topic = query.need("topic")
    place = query.choice("from", (*PLACES, "live"), "newest")
    desk.viewer(topic)  # refuses before anything is read
    partitions = await partitions_of(desk, topic)
    wish = wanted(query, int(time.time() * 1000))
    chosen = chosen_of(query, partitions)
    values: dict[str, Any] = {
        "topic": topic,
        "partitions": partitions,
        "query": {name: query.given.get(name, "") for name in PARAMETERS},
        "place": place,
        "wanted": wish,
        "command": command(desk, topic, query, place),
        "records": [],
        "search": "",
        "live": "",
        "only_partition": None,
        "kept": 0,
    }
    if place == "live":
        values["live"] = "live/tail?" + urlencode({name: text for name, text in query.given.items() if name != "from"})
        return View("messages.html", topic, values)
    only = wish.partition(len(partitions)) if len(chosen) > 1 else None
    spans, faults = await spans_of(desk, topic, place, query, chosen if only is None else [only])
    newest = place == "newest"
    if wish.is_search:
        scan = search_of(desk, topic, wish, spans, newest=newest, committed=query.flag("committed"))
        scan.progress.faults += faults
        values["search"] = desk.keep(Search(scan, only))
        values["only_partition"] = only
    else:
        count = query.count("count", 50, least=1, most=_MOST_PAGE)
        scans = [
            search_of(desk, topic, wish, [span], newest=newest, committed=query.flag("committed")) for span in spans
        ]
        found = await newest_or_oldest(scans, count)
        values["records"] = [as_row(each) for each in found]
        values["kept"] = sum(scan.progress.total for scan in scans)
        values["faults"] = faults + [fault for scan in scans for fault in scan.progress.faults]
        values["next"] = _next(query, found, chosen, newest=newest)
    return View("messages.html", topic, values)


async def partitions_of(desk: Desk, topic: str) -> list[int]:
    """The partitions of a topic; UNKNOWN_TOPIC_OR_PARTITION where there is none of that name."""
    return sorted((await desk.topic(topic)).partitions)


def chosen_of(query: PageQuery, partitions: list[int]) -> list[int]:
    """The partitions that a page asks for, by default all; HttpError 400 names one that there is not."""
    text = query.text("partition")
    if not text:
        return partitions
    numbers = [each.strip() for each in text.split(",")]
    for each in numbers:
        if not each.isdecimal() or int(each) not in partitions:
            raise wrong(f"there is no partition {each!r}: there are {partitions[0]} to {partitions[-1]}")
    return sorted(set(map(int, numbers)))


def _next(query: PageQuery, found: list[ShownRecord], chosen: list[int], *, newest: bool) -> dict[str, str]:
    """The parameters of the next page, which there is for one partition read onwards."""
    if newest or len(chosen) != 1 or not found:
        return {}
    kept = {name: text for name, text in query.given.items() if text}
    return {**kept, "from": "offset", "offset": str(found[-1].offset + 1)}


def command(desk: Desk, topic: str, query: PageQuery, place: str) -> str:
    """The command that prints the same records."""
    is_search = any(query.given.get(name) for name in ("key", "text", "header", "where"))
    newest = "beginning" if is_search else f"-{query.text('count', '50')}"
    start = {"newest": newest, "oldest": "beginning", "live": "end"}.get(place)
    if start is None:
        start = query.text("offset", "0") if place == "offset" else query.text("since", "-1h")
    words = ["ottla", "consume", "-b", desk.setting.bootstrap, topic, "--from", start]
    words += ["-p", query.text("partition")] if query.text("partition") else []
    words += [] if place == "live" else ["-e"]
    words += ["--schema"] if desk.setting.decoding else []
    return shlex.join([*words, "--format", "json"])


async def value(desk: Desk, query: PageQuery) -> Response:
    """The bytes of one value or key as a file. A topic with masks has none."""
    topic, part = query.need("topic"), query.choice("part", ("value", "key"), "value")
    desk.viewer(topic)
    if desk.setting.masks.of(topic):
        raise HttpError(403, f"{topic} has masked fields: its records are shown, and not sent as they are")
    partition, offset = query.count("partition", 0), query.count("offset", 0)
    found = await _raw(desk, topic, partition, offset)
    content = found[part == "key"]
    if content is None:
        raise HttpError(404, f"the {part} of {topic}-{partition} at offset {offset} is null")
    return download(content, f"{topic}-{partition}-{offset}.{part}", "application/octet-stream")


async def _raw(desk: Desk, topic: str, partition: int, offset: int) -> tuple[bytes | None, bytes | None]:
    from ottla.client.consume.received import visible_batches
    from ottla.records.reader import read_records

    piece = await desk.admin.cluster.fetch(topic, partition, offset)
    if piece.error:
        raise refused(piece.error, f"{topic}-{partition} at offset {offset}")
    for batch in visible_batches(piece, committed_only=False):
        for record in read_records(batch) if batch.base_offset <= offset <= batch.last_offset else ():
            if record.offset == offset:
                return record.value, record.key
    raise HttpError(404, f"{topic}-{partition} has no record at offset {offset}")


async def export(desk: Desk, query: PageQuery) -> Response:
    """The records of a page as JSON, a line each, or all hits of a search; then the places that were not looked at."""
    topic = query.need("topic")
    place = query.choice("from", PLACES, "newest")
    wish = wanted(query, int(time.time() * 1000))
    partitions = await partitions_of(desk, topic)
    chosen = chosen_of(query, partitions)
    only = wish.partition(len(partitions)) if len(chosen) > 1 else None
    spans, faults = await spans_of(desk, topic, place, query, chosen if only is None else [only])
    options: dict[str, bool] = {"newest": place == "newest", "committed": query.flag("committed")}
    if wish.is_search:
        scans = [search_of(desk, topic, wish, spans, **options)]
        found = scans[0].steps()
    else:
        scans = [search_of(desk, topic, wish, [span], **options) for span in spans]
        found = _one_piece(await newest_or_oldest(scans, query.count("count", 50, least=1, most=_MOST_PAGE)))

    async def lines() -> AsyncGenerator[bytes, None]:
        async for hits in found:
            if hits:
                yield b"".join(_as_line(_line(each)) for each in hits)
        for fault in [*faults, *(fault for scan in scans for fault in scan.progress.faults)]:
            yield _as_line({"not_looked_at": fault})

    return download(lines(), f"{topic}.jsonl", "application/x-ndjson")


async def _one_piece(records: list[ShownRecord]) -> AsyncIterator[list[ShownRecord]]:
    yield records


def _as_line(value: Values) -> bytes:
    return (json.dumps(value, ensure_ascii=False, default=str) + "\n").encode()


def _line(record: ShownRecord) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _exported(record.key),
        "value": _exported(record.value),
        "headers": record.headers,
    }


def _exported(part: Any) -> Any:
    return part.value if part.kind in ("json", "schema") else None if part.kind == "null" else part.text


def download(body: Any, name: str, media_type: str) -> Response:
    """A file for the browser to save, which it never shows as a page."""
    safe = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in name)
    headers = (
        ("Content-Disposition", f'attachment; filename="{safe}"'),
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Security-Policy", "sandbox"),
        ("Cache-Control", "no-store"),
    )
    return Response(body, media_type, headers=headers)
