"""At-least-once or exactly-once writing: its options, the identity of a task, and the checks of a plan.

Exactly once rests on Spark giving a repeated micro-batch the same rows in the same tasks. Settings under which it does
not are refused here; rows that differ all the same are found by their content (attempt.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.spark.marker import SparkTask

Text = Callable[[str], str | None]

AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
FAIL, WRITE = "fail", "write"
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Properties that Spark gives the tasks of a streaming query."""
ADAPTIVE = "spark.sql.adaptive.enabled"
STATELESS_ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"
SORTED = "spark.sql.execution.sortBeforeRepartition"
NOT_ADAPTIVE = (
    f"Option 'delivery' {EXACTLY_ONCE} needs adaptive execution off: it may give a repeated micro-batch other tasks. "
    "Set {settings} on the session before the query starts; ottla.spark.session() does"
)


@dataclass(frozen=True, slots=True)
class SparkDelivery:
    """The means by which rows are written exactly once."""

    prefix: str
    marker_topic: str
    write_without_markers: bool = False
    query: str = ""
    """The query and the micro-batch that a batch write belongs to, as `write_batch` tells."""
    batch: int = 0


def delivery_options(text: Text, topic: str | None) -> SparkDelivery | None:
    """Parse the options that `text` gives by name; None: at least once. ValueError for values that cannot be."""
    kind = (text("delivery") or AT_LEAST_ONCE).strip().lower()
    if kind not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise ValueError(f"Option 'delivery' must be {AT_LEAST_ONCE} or {EXACTLY_ONCE}, got '{kind}'")
    names = ("delivery.prefix", "delivery.marker.topic", "delivery.missing.marker", "delivery.query", "delivery.batch")
    if kind == AT_LEAST_ONCE:
        if given := [name for name in names if text(name) is not None]:
            raise ValueError(f"Option '{given[0]}' needs option 'delivery' to be {EXACTLY_ONCE}")
        return None
    prefix, marker_topic, missing, query, batch = (text(name) for name in names)
    chosen = (marker_topic or topic or "").strip()
    if not chosen:
        raise ValueError(
            f"Option 'delivery' {EXACTLY_ONCE} needs option 'topic'; where rows name their topics, option "
            "'delivery.marker.topic' says under which of them markers are kept"
        )
    wanted = (missing or FAIL).strip().lower()
    if wanted not in (FAIL, WRITE):
        raise ValueError(f"Option 'delivery.missing.marker' must be {FAIL} or {WRITE}, got '{wanted}'")
    if (query is None) != (batch is None):
        raise ValueError("Options 'delivery.query' and 'delivery.batch' go together")
    if query is not None and not query.strip():
        raise ValueError("Option 'delivery.query' is blank: write_batch needs a name that says which query writes")
    if batch is not None and not batch.strip().isdecimal():
        raise ValueError(f"Option 'delivery.batch' must be a whole number, got '{batch}'")
    return SparkDelivery(
        (prefix or "ottla").strip(), chosen, wanted == WRITE, (query or "").strip(), int(batch) if batch else 0
    )


def streaming_task(delivery: SparkDelivery, property_of: Text, index: int) -> SparkTask:
    """The task that runs here, of a streaming query. ValueError where its plan may not be repeatable."""
    query, batch = property_of(QUERY_ID), property_of(BATCH_ID)
    if not query or batch is None:
        raise ValueError(
            f"Spark does not say which micro-batch this task belongs to ({QUERY_ID}, {BATCH_ID}), so its rows cannot "
            "be written exactly once"
        )
    check_stream(property_of)
    return SparkTask(query, int(batch), index, delivery.prefix)


def batch_task(delivery: SparkDelivery, job: str, property_of: Text, index: int) -> SparkTask:
    """The task that runs here, of a batch write: a job by itself, or a micro-batch that `write_batch` was given."""
    if not delivery.query:
        return SparkTask(job, 0, index, delivery.prefix)
    if _is_on(ADAPTIVE, property_of):
        raise ValueError(NOT_ADAPTIVE.format(settings=f"{ADAPTIVE}=false"))
    _check_sorted(property_of)
    return SparkTask(delivery.query, delivery.batch, index, delivery.prefix)


def check_stream(property_of: Text) -> None:
    """Refuse settings under which a repeated micro-batch may have its rows in other tasks.

    Spark itself has adaptive execution off where a query has state, but tells its tasks of settings only.
    """
    if _is_on(ADAPTIVE, property_of) and _is_on(STATELESS_ADAPTIVE, property_of):
        raise ValueError(NOT_ADAPTIVE.format(settings=f"{STATELESS_ADAPTIVE}=false"))
    _check_sorted(property_of)


def _check_sorted(property_of: Text) -> None:
    if not _is_on(SORTED, property_of):
        raise ValueError(
            f"Option 'delivery' {EXACTLY_ONCE} needs {SORTED}=true, Spark's default: without it repartition(n) deals "
            "rows out by the order in which they happen to come"
        )


def _is_on(name: str, property_of: Text) -> bool:
    """True unless the setting was turned off: Spark does not pass defaults to its tasks."""
    return (property_of(name) or "true").strip().lower() != "false"
