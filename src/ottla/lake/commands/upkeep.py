"""`ottla lake where|compact|expire|status|picture`: upkeep on the command line."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.client.produce.audit_trail import AUDIT_TOPIC
from ottla.kernel.errors import ApiError
from ottla.kernel.quantities import duration_ms, size_bytes
from ottla.lake.commands.parser import Parser
from ottla.stores.base import LakeRefused
from ottla.stores.urls import local_of

if TYPE_CHECKING:
    from ottla.lake.audit.upkeep import Lake
    from ottla.lake.reports.status import Ends
    from ottla.lake.reports.tiers import TierCounts

VERBS = ("where", "compact", "expire", "status", "picture")


def add_verbs(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Declare the verbs."""
    where = verbs.add_parser(
        "where",
        help="what the lake's tables themselves say is loaded",
        description="Per partition the next offset to load and the rows that the table, or its files, tell of, beside "
        "the offset that the loader's state tells.",
    )
    compact = verbs.add_parser(
        "compact",
        help="join small files of Delta and Iceberg tables",
        description="Join small files of Delta and Iceberg tables. Loaders may be at work; readers see the same rows.",
    )
    compact.add_argument("--target-size", type=_size, default="256m", metavar="SIZE", help="of files; default 256m")
    expire = verbs.add_parser(
        "expire",
        help="remove files that no reader needs any more",
        description="Remove what no reader that began within --older-than needs: files that were replaced, and those "
        "of loads that were killed.",
    )
    expire.add_argument("--older-than", type=_age, default="7d", metavar="TIME", help="default 7d")
    status = verbs.add_parser(
        "status",
        help="what is loaded of each topic, and how far",
        description="Per topic the rows loaded, the offsets behind (with -b), late records, dead letters, and the time "
        "through which it is complete. A loader may be at work.",
    )
    status.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT", help="ask this cluster how far it goes")
    picture = verbs.add_parser(
        "picture",
        help="a page that shows the lake's completeness",
        description="Write an HTML page that needs nothing else: a grid a topic, of months, days or hours, by their "
        "rows and whether they are complete; late records and dead letters are marked.",
    )
    picture.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT", help="ask this cluster, its audit topic too")
    picture.add_argument("--audit-topic", default=AUDIT_TOPIC, metavar="TOPIC", help=f"default {AUDIT_TOPIC}")
    picture.add_argument("--by", choices=("month", "day", "hour"), help="default: as the lake is divided, or day")
    picture.add_argument("--out", required=True, type=_file, metavar="FILE.html")
    for verb in (where, compact, expire, status, picture):
        verb.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all of the lake's")
        verb.add_argument("--to", required=True, metavar="PLACE", help="the lake")
    for verb in (where, compact, expire, status):
        verb.add_argument("--format", choices=("text", "json"), default="text", help="of the answer; default text")


def run(options: argparse.Namespace) -> int:
    """Carry a verb out; the exit status."""
    from ottla.lake.audit.upkeep import Lake

    lake = Lake(options.to)
    if options.verb == "where":
        found = [asdict(each) for each in lake.where(options.topics)]
        rows = [tuple(row.values()) for row in found]
        _tell(options.format, found, "topic|partition|in table|in state|rows", rows)
    elif options.verb == "compact":
        joined = lake.compact(options.topics, target_bytes=size_bytes(options.target_size))
        counts = {topic: asdict(done) for topic, done in joined.items()}
        rows = [(topic, *count.values()) for topic, count in counts.items()]
        _tell(options.format, counts, "topic|files put together|into", rows)
    elif options.verb == "status":
        _status(lake, options)
    elif options.verb == "picture":
        _picture(lake, options)
    else:
        age = timedelta(milliseconds=duration_ms(options.older_than))
        removed = lake.expire(options.topics, older_than=age)
        rows = [(topic, len(files)) for topic, files in removed.items()]
        _tell(options.format, removed, "topic|files removed", rows)
    return 0


def _status(lake: Lake, options: argparse.Namespace) -> None:
    """Say so if the cluster does not answer, and print the lake's own state all the same."""
    from ottla.lake.reports.status import statuses

    topics, now_us = lake.topics(options.topics), time.time_ns() // 1000
    ends = _ends(options, topics, now_us)
    found = [asdict(each) for each in statuses(lake.history(), topics, ends, now_us)]
    rows = [tuple("?" if cell is None else cell for cell in row.values()) for row in found]
    _tell(options.format, found, "topic|rows|rounds kept|behind|late|dead|complete through|filtered|newest event", rows)


def _picture(lake: Lake, options: argparse.Namespace) -> None:
    from ottla.lake.audit.grid import LakeFacts, grids
    from ottla.lake.audit.picture import page
    from ottla.lake.columns.windows import window_of
    from ottla.lake.reports.periods import Periods
    from ottla.lake.reports.status import statuses, topic_complete_through, utc_text
    from ottla.lake.reports.tiers import Comparison, compare

    topics, now_us, history = lake.topics(options.topics), time.time_ns() // 1000, lake.history()
    ends = _ends(options, topics, now_us)
    through = {topic: topic_complete_through(topic, history.committed, ends, now_us) for topic in topics}
    told = [] if ends is None else _counted(options)
    until = {topic: window_of(time) - 1 for topic, time in through.items() if time is not None}
    compared = compare(told, history.windows(), Comparison(until))
    periods = Periods(options.by or lake.shape.layout.time_unit or "day", lake.shape.layout.time_zone)
    seen = LakeFacts(history, tuple(statuses(history, topics, ends, now_us)), through, tuple(compared))
    options.out.write_text(page(lake.url, utc_text(now_us) or "", grids(seen, periods)), "utf-8")
    print(f"{options.out}: {len(topics):,} topic{'' if len(topics) == 1 else 's'}")


def _counted(options: argparse.Namespace) -> list[TierCounts]:
    from ottla.lake.reports.tiers import read_messages

    asked = options.bootstrap_server, options.audit_topic
    return read_messages(*asked, since_ms=None, security=options.security).told


def _ends(options: argparse.Namespace, topics: Sequence[str], now_us: int) -> Ends | None:
    """The cluster's end offsets, where a cluster was named and answers."""
    from ottla.lake.reports.status import cluster_ends

    if not options.bootstrap_server:
        return None
    try:
        found = cluster_ends(options.bootstrap_server, topics, now_us, security=options.security)
    except (ApiError, ClientError, OSError) as fault:
        print(f"ottla lake {options.verb}: how far the lake is behind is not known: {fault}", file=sys.stderr)
        return None
    for topic in sorted(set(topics) - found.topic_ids.keys()):
        print(
            f"ottla lake {options.verb}: {options.bootstrap_server} has no topic {topic}, so how far the lake is "
            "behind is not known: it was deleted, this is another cluster, or its user may not see the topic",
            file=sys.stderr,
        )
    return found


def _tell(format: str, whole: object, head: str, rows: Sequence[tuple[object, ...]]) -> None:
    if format == "json":
        json.dump(whole, sys.stdout)
        sys.stdout.write("\n")
        return
    from ottla.lake.reports.counts import aligned

    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    sys.stdout.write("\n".join(aligned([head.split("|"), *texts])) + "\n")


def _size(text: str) -> str:
    try:
        if size_bytes(text):
            return text
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
    raise argparse.ArgumentTypeError("give a size above 0")


def _age(text: str) -> str:
    try:
        duration_ms(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
    return text


def _file(text: str) -> Path:
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text} is a URL: give a file of this machine")
    try:
        return local_of(text, "the page")
    except LakeRefused as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
