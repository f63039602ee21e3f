"""`ottla lake where|compact|expire|status`: upkeep on the command line."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.lake.choices import size_bytes
from ottla.spark.options import duration_ms

if TYPE_CHECKING:
    from ottla.lake.upkeep import Lake

VERBS = ("where", "compact", "expire", "status")


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    for verb in (where, compact, expire, status):
        verb.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all of the lake's")
        verb.add_argument("--to", required=True, metavar="PLACE", help="the lake")
        verb.add_argument("--format", choices=("text", "json"), default="text", help="of the answer; default text")


def run(options: argparse.Namespace) -> int:
    """Carry a verb out; the exit status."""
    from ottla.lake.upkeep import Lake

    lake = Lake(options.to)
    if options.verb == "where":
        found = [asdict(each) for each in lake.where(options.topics)]
        rows = [tuple(row.values()) for row in found]
        _tell(options.format, found, "topic|partition|in table|in state|rows", rows)
    elif options.verb == "compact":
        joined = lake.compact(options.topics, target_bytes=size_bytes(options.target_size))
        counts = {topic: asdict(done) for topic, done in joined.items()}
        rows = [(topic, *count.values()) for topic, count in counts.items()]
        _tell(options.format, counts, "topic|files before|files after", rows)
    elif options.verb == "status":
        _status(lake, options)
    else:
        age = timedelta(milliseconds=duration_ms(options.older_than))
        removed = lake.expire(options.topics, older_than=age)
        rows = [(topic, len(files)) for topic, files in removed.items()]
        _tell(options.format, removed, "topic|files removed", rows)
    return 0


def _status(lake: Lake, options: argparse.Namespace) -> None:
    """A cluster that does not answer is said, and what the lake itself knows is told all the same."""
    from ottla.lake.status import cluster_ends, statuses

    topics, now_us = lake.topics(options.topics), time.time_ns() // 1000
    ends = None
    if options.bootstrap_server:
        try:
            ends = cluster_ends(options.bootstrap_server, topics, now_us)
        except (ApiError, ClientError) as fault:
            print(f"ottla lake status: how far the lake is behind is not known: {fault}", file=sys.stderr)
    found = [asdict(each) for each in statuses(lake.history(), topics, ends, now_us)]
    rows = [tuple("?" if cell is None else cell for cell in row.values()) for row in found]
    _tell(options.format, found, "topic|rows|rounds kept|behind|late|dead|complete through", rows)


def _tell(format: str, whole: object, head: str, rows: Sequence[tuple[object, ...]]) -> None:
    if format == "json":
        json.dump(whole, sys.stdout)
        sys.stdout.write("\n")
        return
    from ottla.lake.audit import aligned

    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    sys.stdout.write("\n".join(aligned([head.split("|"), *texts])) + "\n")


def _size(text: str) -> str:
    try:
        size_bytes(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
    return text


def _age(text: str) -> str:
    try:
        duration_ms(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
    return text
