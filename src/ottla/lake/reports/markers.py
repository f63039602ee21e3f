"""A marker for each month, day or hour that is complete, which downstream jobs wait for.

In plain Parquet `TO/topic=T/date=2013-01-01/_COMPLETE`, where the folder is one of time alone; otherwise
`TO/_ottla/complete/T/date=2013-01-01.json`. Late records are counted in a new body of the marker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ottla.lake.columns.layout import Layout, folder
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.windows import WINDOW_US
from ottla.lake.notes.history import History
from ottla.lake.notes.plans import Commit, Publication
from ottla.lake.notes.state import HOME
from ottla.lake.reports.periods import Count, Period, Periods, closed, counts_by_period
from ottla.lake.reports.status import utc_text
from ottla.stores.base import LakeRefused, Store


class LoaderMarkers:
    """Puts markers down while a loader runs."""

    def __init__(self, store: Store, shape: LakeShape, history: History) -> None:
        self._store = store
        self._shape = shape
        self._periods = Periods.of(shape.layout)
        self._counts: dict[str, dict[Period, Count]] = {}
        self._written: dict[str, dict[str, list[int]]] = {}
        """By topic and period's path: rows and dead letters in the marker, and records when the period was closed."""
        self._waiting: dict[str, set[Period]] = {}
        """Periods without a marker, or with one whose counts are too low."""
        for topic, tally in history.windows().items():
            self._take(topic, counts_by_period(tally, self._periods))

    def committed(self, publication: Publication) -> None:
        """Count a round."""
        for topic, tally in publication.windows.items():
            self._take(topic, counts_by_period(tally, self._periods))

    def caught_up(self, committed: Commit, asked_us: int) -> int:
        """Write the due markers, once the lake holds all that the cluster had at a time; return their number.

        Raises OSError if the store fails; these markers are written the next time.
        """
        written = 0
        for topic, waiting in self._waiting.items():
            through = self._through(topic, committed, asked_us)
            due = sorted(closed(waiting, self._periods, through))
            known = self._known(topic) if due else {}
            changed = [period for period in due if self._mark(topic, period, known, committed.number, through)]
            if changed:
                self._store.replace(f"{HOME}complete/{topic}/_index.json", json.dumps(known).encode())
            waiting.difference_update(due)
            written += len(changed)
        return written

    def _take(self, topic: str, counts: Mapping[Period, Count]) -> None:
        mine, waiting = self._counts.setdefault(topic, {}), self._waiting.setdefault(topic, set())
        for period, count in counts.items():
            before = mine.setdefault(period, Count())
            before.rows += count.rows
            before.dead += count.dead
            waiting.add(period)

    def _through(self, topic: str, committed: Commit, asked_us: int) -> int:
        """The time through which a topic is complete, if all that the cluster had at a time is loaded.

        Records come with about the present time: those of the last window may be on their way. The times of an event
        field may be of another age: there the newest of all partitions tells the time.
        """
        latest = asked_us - WINDOW_US
        if self._shape.layout.event_time:
            times = [time for partition, time in committed.latest.items() if partition.topic == topic]
            return min(latest, max(times, default=latest))
        return latest

    def _known(self, topic: str) -> dict[str, list[int]]:
        """The markers of a topic that are there already."""
        if topic not in self._written:
            body = self._store.read(f"{HOME}complete/{topic}/_index.json")
            self._written[topic] = {} if body is None else json.loads(body)
        return self._written[topic]

    def _mark(self, topic: str, period: Period, known: dict[str, list[int]], number: int, through: int) -> bool:
        """True if a marker was put down, or given a new body."""
        name, path, count = marker_name(self._shape, topic, period), self._periods.path(period), self._counts[topic]
        rows, dead = count[period].rows, count[period].dead
        before = known.get(path) or self._stands(name)
        if before is not None and before[:2] == [rows, dead]:
            known[path] = before
            return False
        at_closing = rows + dead if before is None else before[2]
        body = {
            "topic": topic,
            "period": path,
            "rows": rows,
            "dead": dead,
            "late": rows + dead - at_closing,
            "complete_through": utc_text(through),
            "round": number,
        }
        self._store.replace(name, json.dumps(body).encode())
        known[path] = [rows, dead, at_closing]
        return True

    def _stands(self, name: str) -> list[int] | None:
        """A marker that a loader put down just before it was killed."""
        body = self._store.read(name)
        if body is None:
            return None
        try:
            stored = json.loads(body)
            rows, dead, late = int(stored["rows"]), int(stored["dead"]), int(stored["late"])
        except (ValueError, KeyError, TypeError) as fault:
            raise LakeRefused(f"{self._store.url}/{name} is damaged: {fault}") from fault
        return [rows, dead, rows + dead - late]


def marker_name(shape: LakeShape, topic: str, period: Period) -> str:
    """The name of the marker of a period."""
    unit = shape.layout.time_unit
    if shape.format == "parquet" and unit and shape.layout.partition_by[0] == unit:
        return f"{folder(topic, Layout((unit,)), period)}_COMPLETE"
    return f"{HOME}complete/{topic}/{Periods.of(shape.layout).path(period)}.json"
