"""Topics into a lake of Parquet files: `load(["events"], to="lake")`; `ottla lake load` on the command line."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ottla.client.errors import ClientError
from ottla.client.security import PLAINTEXT, Security, SecuritySetting
from ottla.jobs.progress import to_stderr
from ottla.kernel.errors import ApiError
from ottla.kernel.quantities import duration_ms
from ottla.lake.causes import cause, job_errors
from ottla.lake.options import LOAD, LoadOptions, checked
from ottla.lake.wording import in_keywords, told_in_keywords
from ottla.rows.connections import cluster
from ottla.rows.workers import TaskFailed
from ottla.stores import LakeRefused, lake_url, open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ottla.lake.columns.steps import RowSteps
    from ottla.lake.notes.state import LakeRecords, LakeState
    from ottla.lake.rounds.engines import Engines
    from ottla.lake.rounds.loader import Loaded, Loader
    from ottla.lake.rounds.settings import LoadSettings

MOST_NAMED = 20


class NoTopic(LakeRefused):
    """A topic that is to be loaded does not exist; it may be made."""


__all__ = ["LakeRefused", "LoadOptions", "TaskFailed", "load", "rows", "schema", "table"]


def load(
    topics: str | Sequence[str] = (),
    *,
    to: str | Path,
    every: str | None = None,
    continuous: bool = False,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    tell: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    security: Security | Mapping[str, str] = PLAINTEXT,
    **options: Unpack[LoadOptions],
) -> Loaded:
    """Load topics into the lake at `to`; returns a `Loaded` with the counts.

    A load goes on where the last one ended, exactly once: at no moment is a row in two visible files, and after the
    next completed run none is missing, whichever process was killed at whatever moment.

    It loads what the topics hold now. With `every` ("1m") or `continuous` it loads again until `stop` is set. `topics`
    is one name or several; without names and `pattern` a load takes the topics that the lake has. `tell` takes lines of
    progress, which go to stderr by default. `security` are Kafka's client options, as in `ottla.client`; a lake does
    not keep them.

    A round of up to 64 MiB runs on this machine without Spark; `on` can choose otherwise. `spark` is a session, or a
    function that makes one, which is called only where Spark has something to load: with it a load runs on Spark,
    unless `on="auto"` comes with a function.

    A lake keeps its options: later loads need not name them. TypeError for an option that does not exist, LakeRefused
    where the load cannot go on by itself, ApiError and ClientError from the brokers, OSError from the store;
    TaskFailed, or an error of Spark's, where a task failed.

        from ottla.client import Producer
        from ottla.lake import load

        with Producer("localhost:9092") as producer:
            producer.produce("events", b'{"id": 1}')
        loaded = load("events", to="events-lake", bootstrap="localhost:9092", json=True)
        print(loaded.rows, "rows in", len(loaded.files), "file")
    """
    told = told_in_keywords(tell or to_stderr)
    secured = SecuritySetting(PLAINTEXT).read("security", security)
    with in_keywords():
        return load_for_command(
            topics, to=to, every=every, continuous=continuous, spark=spark, tell=told, stop=stop, security=secured,
            **options,
        )  # fmt: skip


def load_for_command(
    topics: str | Sequence[str],
    *,
    to: str | Path,
    every: str | None,
    continuous: bool,
    spark: SparkSession | Callable[[], SparkSession] | None,
    stop: threading.Event | None,
    tell: Callable[[str], None] | None = None,
    security: Security = PLAINTEXT,
    **options: Unpack[LoadOptions],
) -> Loaded:
    """Like `load`; a LakeRefused names the flags of `ottla lake load`."""
    interval_s = _interval_s(every, continuous=continuous)
    with opened(topics, to=to, spark=spark, tell=tell, security=security, **options) as loader:
        if interval_s is None:
            loader.catch_up(stop)
        else:
            _repeat(loader, interval_s, stop or threading.Event())
        return loader.loaded


@contextlib.contextmanager
def opened(
    topics: str | Sequence[str],
    *,
    to: str | Path,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    tell: Callable[[str], None] | None = None,
    security: Security = PLAINTEXT,
    steps: RowSteps | None = None,
    **options: Unpack[LoadOptions],
) -> Iterator[Loader]:
    """The loader of a lake, which it holds until the end: each `catch_up` loads what the topics hold then.

    It speaks to the brokers with `security`. `steps` are done to records before they are rows.

    Errors of the loader rise; a LakeRefused names flags. Those of `passing` may be gone another time.
    """
    from ottla.lake.notes.state import LakeRecords
    from ottla.lake.rounds.engines import Engines, where_to_run
    from ottla.lake.rounds.known import continued
    from ottla.lake.rounds.settings import load_settings, with_steps

    told, given, url = tell or to_stderr, checked(options), lake_url(to)
    records = LakeRecords(open_store(url))
    known = continued(given, records.shape(), records.noted(), url, empty=records.is_empty())
    names, known = _topics(topics, given, known, records, told)
    settings = load_settings(names, url, known)
    settings = replace(settings, kafka=replace(settings.kafka, security=security))
    if steps is not None and steps.text:
        settings = with_steps(settings, steps)
    _check_topics(settings, told)
    on = where_to_run(given.get("on"), spark=spark is not None and not (given.get("on") == "auto" and callable(spark)))
    with _loader(settings, Engines(on, spark, settings.kafka, told), told, known) as loader:
        yield loader


def schema(lake: str | Path, topic: str) -> pa.Schema:
    """The Arrow schema that holds all values of all of a topic's files in a lake of plain Parquet."""
    from ottla.lake.readers import topic_schema

    return topic_schema(lake, topic).columns


def table(spark: SparkSession, lake: str | Path, topic: str, *, rounded: Sequence[str] = ()) -> DataFrame:
    """A topic of a lake of plain Parquet as a DataFrame, also where its columns came or widened over time.

    `rounded` as in `rows`.
    """
    from ottla.lake.readers import spark_table

    return spark_table(spark, lake, topic, rounded)


def rows(lake: str | Path, topic: str, *, rounded: Sequence[str] = ()) -> pa.RecordBatchReader:
    """All rows of a topic of a lake of plain Parquet, also where columns were renamed over time.

    Earlier versions of ottla made a column `double` though older files of it held whole numbers beyond 2**53. Such a
    column is refused unless `rounded` names it: then those numbers become the nearest doubles.
    """
    from ottla.lake.readers import arrow_rows

    return arrow_rows(lake, topic, rounded)


load.__doc__ = f"{load.__doc__}\n{LOAD.text()}"


def _interval_s(every: str | None, *, continuous: bool) -> float | None:
    """The pause between two looks at the topics; None for one look. LakeRefused for a text that is not a duration."""
    if every is None:
        return 1.0 if continuous else None
    if continuous:
        raise LakeRefused("every and continuous contradict each other: give one of them")
    if not isinstance(every, str):
        raise TypeError(f"every is a duration such as 30s or 5m, not {every!r}")
    try:
        found = duration_ms(every)
    except ValueError as fault:
        raise LakeRefused(f"every: {fault}") from None
    if not found:
        raise LakeRefused("every is a duration above 0; continuous=True loads again at once")
    return found / 1000


def _topics(
    named: str | Sequence[str],
    given: LoadOptions,
    known: LoadOptions,
    records: LakeRecords,
    tell: Callable[[str], None],
) -> tuple[tuple[str, ...], LoadOptions]:
    """The names of the topics, and the options: given names go before a pattern that the lake knows."""
    names = (named,) if isinstance(named, str) else tuple(named)
    if names:
        return names, known if given.get("pattern") else {**known, "pattern": ""}
    if known.get("pattern"):
        if not given.get("pattern"):
            tell(f"topics as before: all that match {known['pattern']}")
        return (), known
    found = tuple(sorted(records.committed().topic_ids))
    if found:
        more = f" and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
        tell(f"topics as before: {', '.join(found[:MOST_NAMED])}{more}")
    return found, known


def _check_topics(settings: LoadSettings, tell: Callable[[str], None]) -> None:
    """Check for missing libraries and settings before Spark is started, which takes a while, or a file is made."""
    from ottla.rows.survey import FetchRetries, Survey

    where = cluster(settings.kafka)
    where.brokers()
    selection = settings.selection
    assigned = Survey(
        where, selection, read_committed=settings.kafka.read_committed, retries=FetchRetries(attempts=0)
    ).assigned(missing_is_fine=True)
    found = {partition.topic for partition in assigned} - {settings.dead_letter}
    if selection.pattern and not found:
        tell(f"no topic matches {selection.pattern} yet")
    if missing := sorted(set(selection.topics) - found):
        raise NoTopic(f"there is no topic {', '.join(missing)}")


def _repeat(loader: Loader, seconds: float, stop: threading.Event) -> None:
    """Catch up until told to stop.

    After a passing fault (an unreachable broker, a failed task) try again next time.
    """
    while not stop.is_set():
        try:
            loader.catch_up(stop)
        except passing() as fault:
            loader.tell(f"this round failed and is done over next time: {cause(fault)}")
        stop.wait(seconds)


def passing() -> tuple[type[Exception], ...]:
    """The types of errors after which a load may succeed another time."""
    from ottla.client.registry_client import RegistryUnavailable
    from ottla.stores import StoreUnreachable

    return (ApiError, ClientError, StoreUnreachable, RegistryUnavailable, *job_errors())


@contextlib.contextmanager
def _loader(
    settings: LoadSettings, engines: Engines, tell: Callable[[str], None], options: LoadOptions
) -> Iterator[Loader]:
    """A loader that holds the lake; Spark is started once there is something to load by it."""
    from ottla.lake.notes.state import LakeState
    from ottla.lake.rounds.loader import Loader

    with LakeState(open_store(settings.url)) as state:
        state.shape_anew(settings.shape)
        loader = Loader(settings, state, engines.workers, tell)
        _note(state, options, tell)
        try:
            yield loader
        finally:
            loader.close()
            engines.close()


def _note(state: LakeState, options: LoadOptions, tell: Callable[[str], None]) -> None:
    """Keep the options for later loads; say which of them are others than before."""
    from ottla.lake.rounds.known import changes, to_note

    before, after = state.noted(), to_note(options)
    if before == after:
        return
    for line in changes(before, after) if before else ():
        tell(line)
    state.note(after)
