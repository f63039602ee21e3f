"""Dead letters: what is in a topic of them by origin and reason, and their way back. jobs/redrive.py does the work."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from typing import Any

from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.model import IsolationLevel
from ottla.client.produce.settings import ProducerSettings
from ottla.console.change import AskedChange
from ottla.console.desk import Desk
from ottla.console.messages import partitions_of
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, wrong
from ottla.jobs.letter_filter import WrongCondition, condition
from ottla.jobs.redrive import Redrive, RedriveReport, WantedLetters
from ottla.records.compression import Codec

PARAMETERS = ("topic", "where", "to", "limit")
_LIKE_LETTERS = re.compile(r"(^|[._-])(dlq|dlt|dead|deadletters?|errors?|letters)($|[._-])", re.IGNORECASE)
_LOOKED_AT = 10_000
_MOST = 100_000
_KINDS = 50


async def letters(desk: Desk, query: PageQuery) -> View:
    """Topics that look like those of dead letters, and what is in the one that is asked for."""
    named = sorted(name for name in await desk.topics() if _LIKE_LETTERS.search(name))
    values: dict[str, Any] = {
        "topics": named,
        "topic": query.text("topic"),
        "where": query.text("where"),
        "to": query.text("to"),
        "limit": query.count("limit", _LOOKED_AT, least=1, most=_MOST),
        "report": None,
    }
    if values["topic"]:
        desk.viewer(values["topic"])
        await partitions_of(desk, values["topic"])
        wanted = _wanted(query, dry=True)
        values["report"] = _shown(await asyncio.to_thread(_run, desk, wanted))
    return View("letters.html", "Dead letters", values)


async def redrive(desk: Desk, form: PageQuery) -> AskedChange:
    """Letters back to where they came from; a letter that an earlier run sent is left out."""
    wanted = _wanted(form, dry=False)
    desk.viewer(wanted.topic)
    await partitions_of(desk, wanted.topic)
    seen = await asyncio.to_thread(_run, desk, _wanted(form, dry=True))

    async def carry_out() -> str:
        report = await asyncio.to_thread(_run, desk, wanted)
        left = f" {report.left.total():,} could not be sent: {'; '.join(report.left)}." if report.left else ""
        return f"{report.sent:,} letters were sent.{left}"

    lines = [f"{seen.to.total():,} letters would be sent, {seen.sent_before:,} were sent by earlier runs."]
    lines += [f"{count:,} letters cannot be sent: {why}." for why, count in seen.left.most_common()]
    words = ["ottla", "redrive", wanted.topic, "-b", desk.setting.bootstrap, "--limit", str(wanted.limit)]
    words += [word for text in _conditions(form) for word in ("--where", text)]
    words += ["--to", wanted.to] if wanted.to else []
    return AskedChange(
        f"Send dead letters of {wanted.topic} back",
        shlex.join(words),
        carry_out,
        url("letters", topic=wanted.topic),
        lines,
        ("letters", "to"),
        [(count, topic) for topic, count in seen.to.most_common()],
    )


def _conditions(query: PageQuery) -> list[str]:
    return [line.strip() for line in query.given.get("where", "").splitlines() if line.strip()]


def _wanted(query: PageQuery, *, dry: bool) -> WantedLetters:
    topic = query.need("topic")
    try:
        conditions = tuple(condition(text, int(time.time() * 1000)) for text in _conditions(query))
    except WrongCondition as fault:
        raise wrong(str(fault)) from None
    limit = query.count("limit", _LOOKED_AT, least=1, most=_MOST)
    return WantedLetters(topic, f"ottla-redrive-{topic}", conditions, query.text("to") or None, limit=limit, dry=dry)


def _run(desk: Desk, wanted: WantedLetters) -> RedriveReport:
    """One run, in a thread."""
    bootstrap, settings = desk.setting.bootstrap, desk.client
    consumer = Consumer(
        bootstrap,
        settings=settings,
        auto_offset_reset="earliest",
        isolation_level=IsolationLevel.READ_COMMITTED,
        allow_auto_create_topics=False,
    )
    with consumer:
        if wanted.dry:
            return Redrive(consumer, None, wanted, _silent).run()
        chosen = ProducerSettings(transactional_id=wanted.group, compression=Codec.ZSTD, allow_auto_create_topics=False)
        with Producer(bootstrap, producer=chosen, settings=settings) as producer:
            return Redrive(consumer, producer, wanted, _silent).run()


def _silent(report: RedriveReport, offsets: int) -> None:
    """Nobody watches a run of a page: its report is the answer."""


def _shown(report: RedriveReport) -> dict[str, Any]:
    return {
        "read": report.read,
        "sent_before": report.sent_before,
        "chosen": report.chosen,
        "kinds": [
            {"from": kind.topic, "stage": kind.stage, "reason": kind.reason, "letters": count}
            for kind, count in report.kinds.most_common(_KINDS)
        ],
        "left": [{"why": why, "letters": count} for why, count in report.left.most_common()],
    }
