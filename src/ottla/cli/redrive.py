"""`ottla redrive`: sends dead letters back to the topics that they came from."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ottla.cli.command import Command, counted, print_json, print_table, wants_json
from ottla.cli.connect import client_settings, read_properties
from ottla.cli.faults import Misuse
from ottla.cli.leaving import interrupted_by_signals
from ottla.cli.options import Given, Option

if TYPE_CHECKING:
    from ottla.jobs.redrive import RedriveReport, WantedLetters

SHOWN_KINDS = 20


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _redrive(given: Given) -> int:
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.blocking.producer import Producer
    from ottla.client.model import IsolationLevel
    from ottla.client.produce.settings import ProducerSettings
    from ottla.jobs.progress import ProgressLine
    from ottla.jobs.redrive import Redrive
    from ottla.records.compression import Codec

    wanted = _wanted(given)
    path = given.text("command-config")
    settings = client_settings(read_properties(path) if path else {})
    bootstrap = given.need("bootstrap-server")
    began = time.monotonic()
    try:
        consumer = Consumer(
            bootstrap,
            settings=settings,
            auto_offset_reset="earliest",
            isolation_level=IsolationLevel.READ_COMMITTED,
            allow_auto_create_topics=False,
        )
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    with interrupted_by_signals(), ExitStack() as open_ones:
        open_ones.enter_context(consumer)
        producer = None
        if not wanted.dry:
            chosen = ProducerSettings(
                transactional_id=wanted.group, compression=Codec.ZSTD, allow_auto_create_topics=False
            )
            producer = open_ones.enter_context(Producer(bootstrap, producer=chosen, settings=settings))
        line = open_ones.enter_context(ProgressLine())

        def show(report: RedriveReport, offsets: int) -> None:
            looked = report.read + report.sent_before
            speed = looked / max(time.monotonic() - began, 0.001)
            line.show(f"{wanted.topic}: {looked:,} of {offsets:,} letters, {report.sent:,} sent, {speed:,.0f}/s")

        report = Redrive(consumer, producer, wanted, show).run()
    _print(given, wanted, report)
    return 1 if report.left else 0


def _wanted(given: Given) -> WantedLetters:
    from ottla.jobs.letter_filter import WrongCondition, condition
    from ottla.jobs.redrive import WantedLetters

    topic, limit = given.words[0], given.number("limit")
    if limit is not None and limit < 1:
        raise Misuse("--limit is at least 1")
    if "to" in given and "same-partition" in given:
        raise Misuse("--same-partition is for topics that letters came from: it does not go with --to")
    try:
        conditions = tuple(condition(text, int(time.time() * 1000)) for text in given.all("where"))
    except WrongCondition as fault:
        raise Misuse(f"--where {fault}") from None
    return WantedLetters(
        topic,
        given.text("group") or f"ottla-redrive-{topic}",
        conditions,
        given.text("to"),
        same_partition="same-partition" in given,
        limit=limit,
        repeat="all" in given,
        dry="dry-run" in given,
    )


def _print(given: Given, wanted: WantedLetters, report: RedriveReport) -> None:
    if wants_json(given):
        print_json(_as_json(wanted, report))
        return
    kinds = report.kinds.most_common()
    if kinds:
        staged = any(kind.stage for kind, _ in kinds)
        titles = ["LETTERS", "FROM", *(["STAGE"] if staged else []), "REASON"]
        rows = [[count, kind.topic or None, *([kind.stage or None] if staged else []), kind.reason]
                for kind, count in kinds[:SHOWN_KINDS]]  # fmt: skip
        print_table(titles, rows)
    if len(kinds) > SHOWN_KINDS:
        sys.stdout.write(f"and {len(kinds) - SHOWN_KINDS} more kinds; --format json prints them\n")
    for why, count in report.left.most_common():
        sys.stderr.write(f"ottla: {counted(count, 'letter')} left in {wanted.topic}: {why}\n")
    sys.stdout.write(f"{_sentence(wanted, report)}\n")


def _sentence(wanted: WantedLetters, report: RedriveReport) -> str:
    """`2 letters sent: 2 to orders`, with those that were not chosen, and those of other runs."""
    ready = sum(report.to.values())
    topics = ", ".join(f"{count:,} to {topic}" for topic, count in report.to.most_common())
    done = "would be sent" if wanted.dry else "sent"
    parts = [f"{counted(ready, 'letter')} {done}" + (f": {topics}" if topics else "")]
    if others := report.read - report.chosen:
        parts.append(f"{counted(others, 'letter')} not chosen by --where")
    if report.sent_before:
        parts.append(f"{counted(report.sent_before, 'letter')} sent by earlier runs (--all sends them again)")
    return "; ".join(parts)


def _as_json(wanted: WantedLetters, report: RedriveReport) -> dict[str, object]:
    return {
        "topic": wanted.topic,
        "group": wanted.group,
        "dry_run": wanted.dry,
        "read": report.read,
        "sent_before": report.sent_before,
        "chosen": report.chosen,
        "sent": report.sent,
        "to": dict(report.to),
        "left": dict(report.left),
        "kinds": [
            {"topic": kind.topic, "stage": kind.stage or None, "reason": kind.reason, "letters": count}
            for kind, count in report.kinds.most_common()
        ],
    }


COMMAND = Command(
    "ottla redrive TOPIC [--where CONDITION]... [--dry-run] [--to TOPIC] [--limit N]",
    "Send dead letters back to where they came from, each once.",
    _redrive,
    [
        Option(
            "where",
            "Only letters like this, all conditions together: topic=orders, partition=0,1, offset>=100, time<-1h, "
            "reason~date, exception~Json, stage=VALUE_CONVERTER, connector=, task=, redriven<3.",
            "CONDITION",
            short="w",
        ),
        Option("dry-run", "Count the letters, and send none.", short="n"),
        Option("to", "Send them to this topic instead.", "TOPIC"),
        Option("same-partition", "Send each to the partition it came from; default: the one that its key belongs to."),
        Option("limit", "Send at most so many letters.", "N", "Long"),
        Option("all", "Send also those that an earlier run sent."),
        Option(
            "group",
            "The group that keeps which letters were sent. Default: ottla-redrive- and the topic's name.",
            "GROUP",
            short="g",
        ),
    ],
    words=(1, 1),
)
