"""A loader's metrics for Prometheus, on this machine's loopback address while the loader runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ottla.lake.notes.history import complete_through, late_of
from ottla.lake.notes.plans import Commit, Publication
from ottla.lake.reports.status import Ends
from ottla.metrics.exposition import CONTENT_TYPE, render
from ottla.metrics.metric import Metric, Sample
from ottla.stores.base import LakeRefused

ROWS = Metric("ottla_lake_rows_total", "counter", "Rows that this run loaded.", ("topic",))
DEAD = Metric("ottla_lake_dead_letters_total", "counter", "Dead letters of this run.", ("topic",))
FILTERED = Metric(
    "ottla_lake_filtered_records_total", "counter", "Records that the filter of this run left out.", ("topic",)
)
LATE = Metric(
    "ottla_lake_late_records_total", "counter", "Records of this run for windows that were complete.", ("topic",)
)
ROUNDS = Metric("ottla_lake_rounds_total", "counter", "Rounds that this run committed.")
BEHIND = Metric("ottla_lake_behind_offsets", "gauge", "Offsets not loaded when the cluster was last asked.", ("topic",))
THROUGH = Metric(
    "ottla_lake_newest_event_seconds",
    "gauge",
    "The least, over partitions, of the greatest event time loaded, in seconds since 1970.",
    ("topic",),
)
RATIO = Metric(
    "ottla_audit_completeness_ratio",
    "gauge",
    "The share of the records that a tier counted in the last day that is in the lake.",
    ("topic", "tier"),
)
FAULTS = Metric("ottla_lake_report_faults_total", "counter", "Reports of this loader that failed.")


class ExportedCounts:
    """The values of the metrics. Counted by the loader's thread, read by those that serve."""

    def __init__(self, committed: Commit) -> None:
        self._guard = threading.Lock()
        self._committed = committed
        self._ends: Ends | None = None
        self._sums: dict[tuple[Metric, str], int] = {}
        self._rounds = self._faults = 0
        self._ratios: dict[tuple[str, str], float] = {}

    def take(self, publication: Publication, before: Commit, after: Commit) -> None:
        """Count a round."""
        late = late_of(publication, before)
        with self._guard:
            self._committed = after
            self._rounds += 1
            for count in publication.counts:
                self._add(ROWS, count.span.topic, count.rows)
                self._add(DEAD, count.span.topic, count.dead)
                self._add(FILTERED, count.span.topic, count.filtered)
            for topic, tally in late.items():
                self._add(LATE, topic, sum(tally.records))

    def ends(self, ends: Ends) -> None:
        """Note where the topics begin and end."""
        with self._guard:
            self._ends = ends

    def ratios(self, found: dict[tuple[str, str], float]) -> None:
        """Note the ratios by topic and tier."""
        with self._guard:
            self._ratios = found

    def fault(self) -> None:
        """Count a report that failed."""
        with self._guard:
            self._faults += 1

    def samples(self) -> list[Sample]:
        """All that is known now."""
        with self._guard:
            found = [
                Sample(metric, (topic,), value) for (metric, topic), value in sorted(self._sums.items(), key=_name)
            ]
            found.append(Sample(ROUNDS, (), self._rounds))
            found += [Sample(BEHIND, (topic,), value) for topic, value in self._behind().items()]
            through = complete_through(self._committed)
            found += [Sample(THROUGH, (topic,), time / 1e6) for topic, time in sorted(through.items())]
            found += [Sample(RATIO, place, value) for place, value in sorted(self._ratios.items())]
            found.append(Sample(FAULTS, (), self._faults))
            return found

    def _add(self, metric: Metric, topic: str, value: int) -> None:
        self._sums[metric, topic] = self._sums.get((metric, topic), 0) + value

    def _behind(self) -> dict[str, int]:
        behind: dict[str, int] = {}
        for partition in sorted(self._ends.latest) if self._ends is not None else ():
            if self._ends is not None:
                offsets = self._ends.behind(partition, self._committed)
                behind[partition.topic] = behind.get(partition.topic, 0) + offsets
        return behind


class Exporter:
    """Serves GET /metrics until `close`."""

    def __init__(self, port: int, samples: Callable[[], list[Sample]]) -> None:
        from ottla.web.exchange import Request, Response
        from ottla.web.routes import Router
        from ottla.web.server import listening, serving
        from ottla.web.thread import LoopThread

        async def metrics(_request: Request) -> Response:
            return Response(render(samples()).encode(), CONTENT_TYPE)

        router = Router({"metrics": {"GET": metrics}}, lists_paths=True)
        try:
            bound = listening("127.0.0.1", port)
            self._thread = LoopThread("ottla-lake-metrics", lambda: serving(router, bound)).start()
        except OSError as fault:
            raise LakeRefused(f"--metrics-port {port}: {fault.strerror or fault}") from fault
        self.port = bound.getsockname()[1]

    def close(self) -> None:
        """Stop serving."""
        self._thread.stop()


def _name(entry: tuple[tuple[Metric, str], int]) -> tuple[str, str]:
    (metric, topic), _ = entry
    return metric.name, topic
