"""Runs a topology: in this process over the client, or by Spark."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.streams import runner
from ottla.streams.connection import KNOWN, connection
from ottla.streams.errors import TopologyError
from ottla.streams.graph import Topology
from ottla.streams.letters import choices, prepare
from ottla.streams.naming import checked, nearest
from ottla.streams.on_error import OnError
from ottla.streams.patterns import SourceOf
from ottla.streams.served import served
from ottla.streams.stopping import stopped_by_signals
from ottla.streams.stores.disk import MEMORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, SPARK = "local", "spark"
_log = logging.getLogger(__name__)
_COMMON = {"topology", "application_id", "bootstrap", "stop"}


def run(
    topology: Topology,
    *,
    application_id: str,
    bootstrap: str | Sequence[str] = "localhost:9092",
    on: str = LOCAL,
    stop: threading.Event | None = None,
    **options: Any,
) -> None:
    """Run until SIGTERM, Ctrl-C or `stop`; on="local" in this process, on="spark" by Spark.

    `application_id` is the consumer group; it begins the names of the application's own topics. Options in this
    process: max_poll_records, session_timeout_ms, transaction_timeout_ms, replication_factor. In both:

    * on_error, of records that cannot be read, processed or written: fail (the default), skip, or dead-letter, which
      keeps them in the topic `dead_letter`; or a choice for each stage
    * query_port, query_host: where to answer over HTTP
    * stores: memory, or disk for state that is larger
    * kafka: further properties of the client, such as security.protocol

    Options on Spark:

    * spark: a session; else master, a master's URL, by default this machine
    * checkpoint: a place for Spark's checkpoint, by default ottla-streams/APPLICATION_ID
    * state: a place for the state files, by default in the checkpoint
    * delivery: exactly-once, or at-least-once
    * lateness: exact, as Kafka has it; watermark: no record is late by others of its batch
    * max_records: the most records of a batch, by default 200,000
    * every_s: the seconds between two batches, by default 0
    * available_now: True ends the run at the present ends of the topics

    Raises ProcessingError where a function of the user's fails (the batch leaves nothing), TopologyError for a topology
    that cannot be run or topics that do not fit, `ApiError` and `ClientError` of the cluster.
    """
    if on not in (LOCAL, SPARK):
        raise TopologyError(f"on={on!r} is not known{nearest(on, (LOCAL, SPARK))}")
    function = runner.run if on == LOCAL else _on_spark
    known = inspect.signature(function).parameters.keys() - _COMMON
    if unknown := sorted(options.keys() - known):
        raise TypeError(f"run() on {on} has no option {unknown[0]}{nearest(unknown[0], known)}")
    function(topology, application_id=application_id, bootstrap=bootstrap, stop=stop, **options)


def _on_spark(
    topology: Topology,
    *,
    application_id: str,
    bootstrap: str | Sequence[str],
    stop: threading.Event | None,
    spark: SparkSession | None = None,
    master: str | None = None,
    checkpoint: str | None = None,
    state: str | None = None,
    delivery: str = "exactly-once",
    lateness: str = "exact",
    max_records: int = 200_000,
    every_s: float = 0.0,
    available_now: bool = False,
    on_error: str | OnError | None = None,
    dead_letter: str | None = None,
    query_port: int | None = None,
    query_host: str = "127.0.0.1",
    stores: str = MEMORY,
    kafka: Mapping[str, str] | None = None,
) -> None:
    """Open a session if there is none, and run."""
    from ottla.spark.session import on_this_machine
    from ottla.spark.submit import SparkSettings, open_session
    from ottla.streams.on_spark.job import SparkRun, run_on_spark
    from ottla.streams.on_spark.places import checkpoint_place, state_place
    from ottla.streams.status import SparkInstance

    checked(application_id)
    servers = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    settings = SparkRun(
        application_id, {**(kafka or {}), "bootstrap.servers": servers}, checkpoint_place(application_id, checkpoint),
        state_place(application_id, checkpoint, state), delivery, lateness, max_records, every_s, available_now,
        choices(on_error, dead_letter), dead_letter, stores,
    )  # fmt: skip
    settings.check()
    where = connection(bootstrap, {name: text for name, text in (kafka or {}).items() if name in KNOWN})
    if spark is not None and master is not None:
        raise TopologyError("spark= and master= contradict each other: give one of them")
    made = None if spark is not None else open_session(SparkSettings(master), application=application_id, quiet=True)
    session = spark or (made.spark if made else None)
    assert session is not None
    stop = stop or threading.Event()
    try:
        if dead_letter is not None:
            with where.admin() as admin:
                prepare(admin, dead_letter, SourceOf(topology.sources()).reads, -1)
        if not on_this_machine(session.sparkContext.master or "") and checkpoint is None:
            raise TopologyError("executors on other machines need a checkpoint that all of them see: name checkpoint=")
        instance = SparkInstance(application_id, settings.state, where)
        with stopped_by_signals(stop), served(instance, topology, where, query_host, query_port):
            run_on_spark(topology, settings, session, stop=stop, tell=_log.warning)
    finally:
        if made is not None:
            made.close()
