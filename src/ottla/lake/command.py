"""`ottla lake load TOPIC... --to DIR`: the loader on the command line."""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.lake import LakeRefused, load, report_options, upkeep_command
from ottla.lake.settings import CODECS, FORMATS, size_bytes
from ottla.spark import session
from ottla.spark.options import duration_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.lake.loader import Loaded


def command(arguments: Sequence[str]) -> int:
    """Run `ottla lake ...`; the exit status."""
    options = _parser().parse_args(arguments)
    if options.verb in upkeep_command.VERBS:
        return _upkeep(options)
    if bool(options.topics) == (options.pattern is not None):
        print("ottla lake load: name topics or give --pattern, one of them", file=sys.stderr)
        return 2
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        print("ottla lake load: needs Spark: pip install 'ottla[spark]', and a Java 17 runtime", file=sys.stderr)
        return 1
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    from py4j.protocol import Py4JError

    try:
        loaded = _load(options)
    except (LakeRefused, ApiError, ClientError, OSError) as fault:
        print(f"ottla lake load: {fault}", file=sys.stderr)
        return 1
    except Py4JError as fault:
        print(f"ottla lake load: Spark failed; the next load does this round over. {_cause(fault)}", file=sys.stderr)
        return 1
    return _report(loaded)


def _upkeep(options: argparse.Namespace) -> int:
    if find_spec("pyarrow") is None:
        print(f"ottla lake {options.verb}: needs pyarrow: pip install 'ottla[lake]'", file=sys.stderr)
        return 1
    try:
        return upkeep_command.run(options)
    except (LakeRefused, OSError) as fault:
        print(f"ottla lake {options.verb}: {fault}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ottla lake", description="Topics as a lake: plain Parquet, Delta, Iceberg.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    load_verb = verbs.add_parser(
        "load",
        help="load topics into a directory of Parquet files, exactly once",
        description="Load topics into TO/topic=T/date=YYYY-MM-DD/T-ROUND-NUMBER.parquet, by the records' own time. Go "
        "on where the last load ended. Once, unless --every or --continuous.",
    )
    load_verb.add_argument("topics", nargs="*", metavar="TOPIC")
    load_verb.add_argument("--to", required=True, metavar="PLACE", help="the lake: a path or a file:// URL")
    load_verb.add_argument("--pattern", metavar="REGEX", help="all topics whose whole name matches, instead of names")
    load_verb.add_argument(
        "-b", "--bootstrap-server", default="localhost:9092", metavar="HOST:PORT", help="default localhost:9092"
    )
    when = load_verb.add_mutually_exclusive_group()
    when.add_argument("--every", metavar="TIME", type=_duration, help="again and again, e.g. 1m, until stopped")
    when.add_argument("--continuous", action="store_true", help="again at once, until stopped")
    load_verb.add_argument("--json", action="store_true", help="values are JSON objects: make columns of their fields")
    load_verb.add_argument(
        "--format", choices=FORMATS, help="parquet (default on file:// and hdfs://), delta (on object stores), iceberg"
    )
    load_verb.add_argument("--catalog", default="", metavar="URL", help="of Iceberg's catalog, e.g. sqlite:///lake.db")
    load_verb.add_argument("--namespace", default="ottla", metavar="NAME", help="in the catalog; default ottla")
    load_verb.add_argument(
        "--key", default="", metavar="FIELDS", help="keep the last row of each key: key, or fields, commas between"
    )
    load_verb.add_argument(
        "--debezium", action="store_true", help="values are Debezium's change events: load the rows that they change"
    )
    load_verb.add_argument(
        "--partition-by",
        default="",
        metavar="HOW",
        help="none, or month|day|hour and fields, commas between; default day, with --key none",
    )
    load_verb.add_argument("--event-time", default="", metavar="FIELD", help="the field whose time counts, with --json")
    load_verb.add_argument("--time-zone", default="UTC", metavar="ZONE", help="of months, days and hours; default UTC")
    load_verb.add_argument(
        "--numbers-as-text", action="store_true", help="a field of whole numbers becomes text where a text turns up"
    )
    load_verb.add_argument("--dead-letter", metavar="TOPIC", help="where records go that --json cannot read")
    load_verb.add_argument("--target-size", type=_size, default="256m", metavar="SIZE", help="of files; default 256m")
    load_verb.add_argument(
        "--max-offsets", type=_count, default=20_000_000, metavar="N", help="in one round; default 20,000,000"
    )
    load_verb.add_argument("--compression", choices=CODECS, default="zstd", help="of files; default zstd")
    load_verb.add_argument(
        "--resume-from-table",
        action="store_true",
        help="where the lake's state was lost: go on from what its Delta or Iceberg tables say is loaded",
    )
    load_verb.add_argument("--accept-loss", action="store_true", help="go on where retention removed records unread")
    load_verb.add_argument(
        "--read-uncommitted", action="store_true", help="load records of open and aborted transactions too"
    )
    report_options.add_options(load_verb)
    upkeep_command.add_verbs(verbs)
    return parser


def _duration(text: str) -> str:
    try:
        duration_ms(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
    return text


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"not a positive number: {text}")
    return int(text)


def _size(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault


def _stop_on_signals(stop: threading.Event) -> None:
    """End after the round at work; the second signal ends at once."""

    def ask_to_stop(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            raise KeyboardInterrupt
        print("stopping after this round; once more stops at once", file=sys.stderr, flush=True)
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)


def _load(options: argparse.Namespace) -> Loaded:
    stop = threading.Event()
    _stop_on_signals(stop)
    sessions: list[SparkSession] = []

    def spark() -> SparkSession:
        """Spark puts its own handler of SIGINT in place, which would end the load without its table: ours again."""
        if not sessions:
            sessions.append(session("ottla lake load"))
            _stop_on_signals(stop)
        return sessions[0]

    try:
        return load(
            options.topics,
            to=options.to,
            pattern=options.pattern or "",
            bootstrap=options.bootstrap_server,
            every=options.every,
            continuous=options.continuous,
            json=options.json,
            format=options.format or "",
            catalog=options.catalog,
            namespace=options.namespace,
            key=options.key,
            resume_from_table=options.resume_from_table,
            debezium=options.debezium,
            partition_by=options.partition_by,
            event_time=options.event_time,
            time_zone=options.time_zone,
            numbers_as_text=options.numbers_as_text,
            dead_letter=options.dead_letter,
            target_size=options.target_size,
            compression=options.compression,
            accept_loss=options.accept_loss,
            max_offsets=options.max_offsets,
            read_committed=not options.read_uncommitted,
            spark=spark,
            stop=stop,
            **report_options.chosen(options),
        )
    finally:
        for each in sessions:
            each.stop()


def _cause(fault: Exception) -> str:
    """The last line of a Python worker's traceback inside a long Java one, or the Java one's first."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    inner = [line for line in lines if re.match(r"[\w.]+(Error|Exception|DataLoss|Refused|Lost|TimedOut)\b.*: ", line)]
    return (inner or lines or [""])[0]


def _report(loaded: Loaded) -> int:
    """Print the audit; a count that does not add up is a failure."""
    from ottla.lake.audit import audit_lines

    if not loaded.counts:
        print("audit: nothing new")
        return 0
    print("\n".join(audit_lines(loaded.counts, loaded.committed)))
    for partition, count in sorted(loaded.lost.items()):
        print(f"lost to retention before it was loaded: {partition}: {count:,} offsets")
    return 0 if loaded.adds_up else 1
