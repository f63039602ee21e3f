"""Topics into a lake of Parquet files: `load(["events"], to="lake")`; `ottla lake load` on the command line."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.lake.causes import cause, job_errors
from ottla.lake.stores import LakeRefused, open_store
from ottla.spark.connections import cluster
from ottla.spark.options import duration_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.lake.loader import Loaded, Loader
    from ottla.lake.settings import LoadOptions, LoadSettings

__all__ = ["LakeRefused", "load", "rows", "schema", "table"]


def load(
    topics: Sequence[str] = (),
    *,
    to: str | Path,
    every: str | None = None,
    continuous: bool = False,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    tell: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[LoadOptions],
) -> Loaded:
    """Load topics into `to` once, `every` so often, or continuously until `stop` is set; returns what came in.

    Exactly once: at no moment is a row in two visible files, and after the next completed run none is missing,
    whichever process was killed at whatever moment. `spark` is a session, or a function that makes one; it is called
    only where there are records to load. `options` are those of settings.py's LoadOptions. Raises LakeRefused where the
    load cannot go on by itself, ApiError and ClientError from the brokers, OSError from the store.

        load(["events"], to="lake", bootstrap="localhost:9092", json=True, dead_letter="events.bad")
    """
    from ottla.lake.settings import load_settings

    settings = load_settings(topics, to, options)
    interval_ms = duration_ms(every) if every is not None else 1_000 if continuous else None
    told = tell or _to_stderr
    _check_topics(settings, told)
    with _loader(settings, spark, told) as loader:
        if interval_ms is None:
            loader.catch_up(stop)
        else:
            _repeat(loader, interval_ms / 1000, stop or threading.Event())
        return loader.loaded


def schema(lake: str | Path, topic: str) -> object:
    """The Arrow schema that holds all values of all of a topic's files in a lake of plain Parquet."""
    from ottla.lake.readers import topic_schema

    return topic_schema(lake, topic).columns


def table(spark: SparkSession, lake: str | Path, topic: str) -> object:
    """A topic of a lake of plain Parquet as a DataFrame, also where its columns came or widened over time."""
    from ottla.lake.readers import spark_table

    return spark_table(spark, lake, topic)


def rows(lake: str | Path, topic: str) -> object:
    """A topic of a lake of plain Parquet as a pyarrow.RecordBatchReader, also where columns were renamed over time."""
    from ottla.lake.readers import arrow_rows

    return arrow_rows(lake, topic)


def _check_topics(settings: LoadSettings, tell: Callable[[str], None]) -> None:
    """Check for missing libraries and settings before Spark is started, which takes a while, or a file is made."""
    from ottla.spark.survey import Retries, Survey

    where = cluster(settings.kafka)
    where.brokers()
    selection = settings.selection
    assigned = Survey(
        where, selection, read_committed=settings.kafka.read_committed, retries=Retries(attempts=0)
    ).assigned(missing_is_fine=True)
    found = {partition.topic for partition in assigned} - {settings.dead_letter}
    if selection.pattern and not found:
        tell(f"no topic matches {selection.pattern} yet")
    if missing := sorted(set(selection.topics) - found):
        raise LakeRefused(f"there is no topic {', '.join(missing)}")


def _repeat(loader: Loader, seconds: float, stop: threading.Event) -> None:
    """Catch up until told to stop.

    After a passing fault (an unreachable broker, a failed Spark job) try again next time.
    """
    from ottla.client.registry_client import RegistryUnavailable
    from ottla.lake.stores import StoreUnreachable

    passing: tuple[type[Exception], ...] = (ApiError, ClientError, StoreUnreachable, RegistryUnavailable, *job_errors())
    while not stop.is_set():
        try:
            loader.catch_up(stop)
        except passing as fault:
            loader.tell(f"this round failed and is done over next time: {cause(fault)}")
        stop.wait(seconds)


@contextlib.contextmanager
def _loader(
    settings: LoadSettings, spark: SparkSession | Callable[[], SparkSession] | None, tell: Callable[[str], None]
) -> Iterator[Loader]:
    """A loader that holds the lake; Spark is started once there is something to load."""
    from ottla.lake.loader import Loader
    from ottla.lake.state import LakeState
    from ottla.spark.session import session

    mine: list[SparkSession] = []

    def running() -> SparkSession:
        if not mine:
            mine.append(session("ottla lake load") if spark is None else spark() if callable(spark) else spark)
        return mine[0]

    with LakeState(open_store(settings.url)) as state:
        loader = Loader(settings, state, running, tell)
        try:
            yield loader
        finally:
            loader.close()
            if spark is None and mine:
                mine[0].stop()


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
