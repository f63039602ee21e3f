"""`ottla lake load TOPIC... --to DIR`: the loader on the command line."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientError
from ottla.jobs.progress import CLEAR
from ottla.jobs.running import stop_on_signals
from ottla.kernel.errors import ApiError
from ottla.lake import LakeRefused, load_for_command
from ottla.lake.causes import cause, job_errors
from ottla.lake.commands import audit as audit_command
from ottla.lake.commands import load_arguments
from ottla.lake.commands import upkeep as upkeep_command
from ottla.lake.commands.parser import Parser
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.workers import TaskFailed
from ottla.spark.launch import SparkRefused, told
from ottla.spark.submit import Opened, open_session, spark_settings
from ottla.stores import lake_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.lake.rounds.loader import Loaded


SHOWN_LINES = 30


def command(arguments: Sequence[str]) -> int:
    """Run `ottla lake ...`; the exit status."""
    options = _parser().parse_args(load_arguments.with_times_joined(arguments))
    if options.verb in upkeep_command.VERBS:
        return _upkeep(options)
    if options.verb == "audit":
        return audit_command.run(options, "ottla lake audit")
    if options.topics and options.pattern is not None:
        print("ottla lake load: name topics or give --pattern, one of them", file=sys.stderr)
        return 2
    if find_spec("pyarrow") is None:
        return _failed("needs pyarrow: pip install 'ottla[lake]'", [])
    clear = CLEAR if sys.stderr.isatty() else ""
    logging.basicConfig(level=logging.WARNING, format=f"{clear}ottla: %(message)s", stream=sys.stderr)
    logging.getLogger("pyiceberg.io.pyarrow").addFilter(_worth_saying)

    try:
        loaded = _load(options)
    except (LakeRefused, ApiError, ClientError, OSError) as fault:
        return _failed(str(fault), told() if isinstance(fault, SparkRefused) else [])
    except job_errors() as fault:
        where = "a task" if isinstance(fault, TaskFailed) else "Spark"
        return _failed(f"{where} failed; the next load does this round over. {cause(fault)}", told())
    return _report(loaded)


def _failed(sentence: str, lines: Sequence[str]) -> int:
    """Print the last lines of Spark's process where they were kept, then the sentence; the exit status."""
    if lines:
        print("Spark's last lines (--verbose shows all):", file=sys.stderr)
    for line in lines[-SHOWN_LINES:]:
        print(f"  {line}", file=sys.stderr)
    print(f"ottla lake load: {sentence}", file=sys.stderr)
    return 1


def _upkeep(options: argparse.Namespace) -> int:
    if find_spec("pyarrow") is None:
        print(f"ottla lake {options.verb}: needs pyarrow: pip install 'ottla[lake]'", file=sys.stderr)
        return 1
    try:
        return upkeep_command.run(options)
    except (LakeRefused, ApiError, ClientError, OSError) as fault:
        print(f"ottla lake {options.verb}: {fault}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="ottla lake", description="Topics as a lake: plain Parquet, Delta, Iceberg.")
    verbs: Any = parser.add_subparsers(dest="verb", required=True)
    load_arguments.add_verb(verbs)
    upkeep_command.add_verbs(verbs)
    audit_command.add_verb(verbs, "audit")
    return parser


def _worth_saying(record: logging.LogRecord) -> bool:
    """False for pyiceberg's warning about each column of each file that Parquet has no statistics of."""
    return not record.msg.startswith("PyArrow statistics missing for column")


def _stop_on_signals(stop: threading.Event) -> None:
    """End after the present round; a second signal ends at once."""
    stop_on_signals(stop.set, "stopping after this round; once more stops at once", stopping=stop.is_set)


def _load(options: argparse.Namespace) -> Loaded:
    from ottla.lake.rounds.engines import where_to_run

    asked, (given, security) = spark_settings(options), load_arguments.chosen(options)
    given["on"] = on = where_to_run(given.get("on"), spark=asked.any_given)
    stop = threading.Event()
    _stop_on_signals(stop)
    sessions: list[Opened] = []

    def spark() -> SparkSession:
        """Put our handler of SIGINT back in the place of Spark's, which would end the load without its table."""
        from ottla.lake.rounds.known import noted_bootstrap
        from ottla.lake.rounds.write import unwritable
        from ottla.spark.probe import probe

        if not sessions:
            sessions.append(open_session(asked, application="ottla lake load", quiet=not options.verbose))
            _stop_on_signals(stop)
            brokers = noted_bootstrap(options.to)
            assert brokers is not None  # the load has noted them
            kafka = KafkaSettings(brokers, client_id="ottla-lake", security=security)
            probe(sessions[0].spark, kafka, partial(unwritable, lake_url(options.to)))
        return sessions[0].spark

    try:
        return load_for_command(
            options.topics,
            to=options.to,
            every=options.every,
            continuous=options.continuous,
            spark=None if on == "local" else spark,
            stop=stop,
            security=security,
            **given,
        )
    except _ended() as fault:
        if not all(each.answers for each in sessions):
            raise SparkRefused("Spark's Java process ended; the next load does this round over") from fault
        raise
    finally:
        for each in sessions:
            each.close()


def _ended() -> tuple[type[Exception], ...]:
    """The types of errors that may come of Spark's end."""
    return (OSError, *job_errors())


def _report(loaded: Loaded) -> int:
    """Print the audit; a count that does not add up is a failure."""
    from ottla.lake.reports.counts import audit_lines

    if not loaded.counts:
        print("audit: nothing new")
        return 0
    print("\n".join(audit_lines(loaded.counts, loaded.committed)))
    for partition, count in sorted(loaded.lost.items()):
        print(f"lost to retention before it was loaded: {partition}: {count:,} offsets")
    return 0 if loaded.adds_up else 1
