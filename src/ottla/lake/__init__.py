"""Topics into a Parquet lake: `load(["events"], to="lake")`; `ottla lake load` on the command line."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.lake.settings import LoadSettings, size_bytes
from ottla.lake.stores.base import LakeRefused
from ottla.spark.connections import cluster
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.options import Selection, duration_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.lake.loader import Loaded, Loader

__all__ = ["LakeRefused", "load"]


def load(
    topics: Sequence[str] = (),
    *,
    to: str | Path,
    pattern: str = "",
    bootstrap: str = "localhost:9092",
    every: str | None = None,
    continuous: bool = False,
    json: bool = False,
    dead_letter: str | None = None,
    target_size: str | int = "256m",
    compression: str = "zstd",
    accept_loss: bool = False,
    read_committed: bool = True,
    max_offsets: int = 20_000_000,
    spark: SparkSession | None = None,
    tell: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> Loaded:
    """Load topics into `to` once, `every` so often, or continuously until `stop` is set; returns what came in.

    Exactly once: at no moment is a row in two visible files, and after the next completed run none is missing,
    whatever was killed when. Raises LakeRefused where it cannot go on by itself.
    """
    if bool(topics) == bool(pattern):
        raise LakeRefused("name topics or a pattern, one of them")
    settings = LoadSettings(
        selection=Selection(topics=tuple(sorted(set(topics))), pattern=pattern),
        directory=Path(to),
        kafka=KafkaSettings(bootstrap, client_id="ottla-lake", read_committed=read_committed),
        json=json,
        dead_letter=dead_letter,
        target_bytes=target_size if isinstance(target_size, int) else size_bytes(target_size),
        compression=compression,
        accept_loss=accept_loss,
        most_offsets=max_offsets,
    )
    interval_ms = duration_ms(every) if every is not None else 1_000 if continuous else None
    cluster(settings.kafka).brokers()  # before Spark is started, which takes a while
    with _loader(settings, spark, tell or _to_stderr) as loader:
        if interval_ms is None:
            loader.catch_up(stop)
        else:
            _repeat(loader, interval_ms / 1000, stop or threading.Event())
        return loader.loaded


def _repeat(loader: Loader, seconds: float, stop: threading.Event) -> None:
    """Catch up until told to stop. What may pass (a broker away, a Spark job that failed) is tried again next time."""
    from py4j.protocol import Py4JError

    while not stop.is_set():
        try:
            loader.catch_up(stop)
        except (ApiError, ClientError, Py4JError) as fault:
            loader.tell(f"this round failed and is done over next time: {str(fault).splitlines()[0]}")
        stop.wait(seconds)


@contextlib.contextmanager
def _loader(settings: LoadSettings, spark: SparkSession | None, tell: Callable[[str], None]) -> Iterator[Loader]:
    """A loader that holds the lake's lock; refused before Spark is started, which takes a while."""
    from ottla.lake.loader import Loader
    from ottla.lake.state import LakeState
    from ottla.spark.session import session

    with LakeState(settings.directory) as state:
        mine = spark is None
        running = spark if spark is not None else session("ottla lake load")
        try:
            yield Loader(settings, state, running, tell)
        finally:
            if mine:
                running.stop()


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
