"""Chooses where a round runs: on Spark, or on this machine in as many processes as its bytes are worth.

Spark takes ten seconds and more to start, and pays where there is much to read and a cluster to read it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ottla.lake.notes.plans import LoadPlan
from ottla.lake.reports.counts import size_text
from ottla.rows.connections import cluster
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.sizes import estimated_bytes
from ottla.rows.workers import Here, Processes, Workers, cores
from ottla.stores.base import LakeRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_HERE = 64 << 20
"""The bytes of a round above which Spark is the choice of `auto`."""
BYTES_OF_A_PROCESS = 16 << 20
"""A process takes more than half a second to start: it is worth that for as much as this."""
SET_UP = ("PYSPARK_GATEWAY_PORT", "SPARK_MASTER", "SPARK_CONF_DIR")
"""Variables of spark-submit, and of people who have a Spark to run on."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a round: Spark, or so many processes here; `why` is the end of a sentence."""

    spark: bool
    processes: int
    why: str


def choice(on: str, size: int, cores: int, lacking: str | None) -> EngineChoice:
    """The engine for a round of so many bytes; `lacking` tells why Spark cannot run. Pure."""
    to_load = f"about {size_text(size)} to load"
    if on == "spark":
        return EngineChoice(True, 0, "")
    if on == "auto" and size > MOST_HERE and lacking is None:
        return EngineChoice(True, 0, to_load)
    processes = max(1, min(cores, -(-size // BYTES_OF_A_PROCESS)))
    without = f", and {lacking}" if on == "auto" and size > MOST_HERE else ""
    return EngineChoice(False, processes, f"{to_load}{without}")


class Engines:
    """Chooses the workers of each round, and ends those that it started."""

    def __init__(
        self,
        on: str,
        spark: SparkSession | Callable[[], SparkSession] | None,
        kafka: KafkaSettings,
        tell: Callable[[str], None],
    ) -> None:
        self._on, self._given, self._kafka, self._tell = on, spark, kafka, tell
        self._session: SparkSession | None = None
        self._here: Here | Processes | None = None

    def workers(self, plan: LoadPlan) -> Workers:
        """The workers for the ranges of a plan."""
        size = 0 if self._on == "spark" else estimated_bytes(cluster(self._kafka), plan.ranges)
        made = choice(self._on, size, cores(), lacking_spark() if size > MOST_HERE else None)
        if made.spark:
            return self._executors(made.why)
        if self._here is None or self._here.count != made.processes:
            many = "in this process" if made.processes == 1 else f"in {made.processes} processes here"
            self._tell(f"loading {many}, without Spark: {made.why}")
            self._end_processes()
            self._here = Here() if made.processes == 1 else Processes(made.processes)
        return self._here

    def close(self) -> None:
        """End what was started here; a session that was given stays."""
        self._end_processes()
        if self._given is None and self._session is not None:
            self._session.stop()

    def _executors(self, why: str) -> Workers:
        from ottla.spark.executors import Executors
        from ottla.spark.launch import INSTALL

        if find_spec("pyspark") is None:
            raise LakeRefused(f"--on spark needs Spark: pip install 'ottla[spark]', and a Java runtime: {INSTALL}")
        if self._given is None:
            self._given = running_session()
        if self._session is None:
            if self._given is None or callable(self._given):
                self._tell(f"starting Spark: {why}" if why else "starting Spark")
            self._session = self._made_session()
        return Executors(self._session)

    def _made_session(self) -> SparkSession:
        from ottla.spark.session import made_session

        if self._given is None:
            return made_session("ottla lake load", None, {}, quiet=True)
        return self._given() if callable(self._given) else self._given

    def _end_processes(self) -> None:
        if isinstance(self._here, Processes):
            self._here.close()


def where_to_run(on: str | None, *, spark: bool) -> str:
    """`auto`, `spark` or `local`, by what was asked for; `spark` tells whether a session or its settings were given."""
    if on == "local" and spark:
        raise LakeRefused("--on local runs without Spark: leave its options out, or give --on spark")
    if on in (None, "auto") and (spark or spark_is_set_up()):
        return "spark"
    return on or "auto"


def spark_is_set_up() -> bool:
    """True if this process runs in Spark or has a session, or its environment names a Spark."""
    return any(os.environ.get(name) for name in SET_UP) or running_session() is not None


def running_session() -> SparkSession | None:
    """The session of the program that calls us, where it has one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def lacking_spark() -> str | None:
    """The reason why Spark cannot run here, or None."""
    from ottla.spark.launch import SparkRefused, check_java

    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    try:
        check_java()
    except SparkRefused:
        return "there is no Java runtime for Spark"
    return None
