"""The first page: brokers, what is not well, and how much moves."""

from __future__ import annotations

from ottla.client.admin.loads import NOTHING
from ottla.client.admin.overview import overview_of
from ottla.client.model import Broker
from ottla.console.desk import Desk
from ottla.console.sparkline import shown, size_shown, sparkline
from ottla.console.view import PageQuery, View

_MOST_TOP = 8
COURSES = (
    ("records", "records in a second"),
    ("bytes_in", "bytes in a second"),
    ("bytes_out", "bytes out a second"),
    ("lag", "records that groups lag behind"),
)


async def overview(desk: Desk, query: PageQuery) -> View:
    """Brokers, partitions that are not well, rates, and the groups that lag most."""
    desk.watch.wanted()
    cluster = await desk.admin.describe_cluster()
    topics = await desk.topics()
    brokers = {one.broker_id: Broker(one.broker_id, one.host, one.port, one.rack) for one in cluster.brokers}
    parts = [list(view.partitions.values()) for view in topics.values()]
    found = overview_of(cluster.cluster_id, cluster.controller_id, brokers, parts)
    samples = desk.watch.samples
    rows = []
    for number, share in found.shares.items():
        broker, load = brokers.get(number), desk.watch.loads.get(number, NOTHING)
        rows.append(
            {
                "id": number,
                "address": f"{broker.host}:{broker.port}" if broker else "gone",
                "rack": (broker.rack if broker else None) or "",
                "caretaker": number == found.caretaker,
                "leads": share.leads,
                "replicas": share.replicas,
                "in_sync": share.in_sync,
                "bytes_in": _rate(load.bytes_in_per_s),
                "bytes_out": _rate(load.bytes_out_per_s),
                "disk": size_shown(load.disk_bytes),
                "free": size_shown(load.free_bytes),
            }
        )
    lags = sorted(samples.lags.items(), key=lambda each: -each[1])[:_MOST_TOP]
    rates = sorted(samples.topic_rates.items(), key=lambda each: -each[1])[:_MOST_TOP]
    values = {
        "cluster_id": found.cluster_id,
        "summary": found.summary,
        "well": not (found.under_replicated or found.leaderless),
        "brokers": rows,
        "topics": found.topics,
        "partitions": found.partitions,
        "under_replicated": found.under_replicated,
        "leaderless": found.leaderless,
        "courses": [_course(desk, name, label) for name, label in COURSES],
        "groups": [{"group": group, "lag": lag} for group, lag in lags if lag],
        "busiest": [{"topic": topic, "rate": shown(rate)} for topic, rate in rates if rate],
        "fault": desk.watch.fault,
        "troubles": [each._asdict() for each in await desk.admin.replica_troubles()],
    }
    return View("overview.html", "Overview", values)


def _course(desk: Desk, name: str, label: str) -> dict[str, str]:
    points = desk.watch.samples.courses.of(name)
    show = size_shown if name.startswith("bytes") else shown
    now = show(points[-1]) if points else "?"
    return {"label": label, "now": now, "svg": sparkline(points, label)}


def _rate(rate: float | None) -> str:
    return "?" if rate is None else f"{size_shown(rate)}/s"
