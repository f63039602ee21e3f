"""Options for a loader's reports to others, on the command line and in Python."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TypedDict

from ottla.client.produce.audit_trail import AUDIT_TOPIC


class ReportOptions(TypedDict, total=False):
    """Options of `ottla.lake.load` about a loader's reports; all may be left out."""

    group: str
    """The consumer group that shows how far the lake is loaded; default `ottla-lake-` and the loader's name."""
    audit: bool
    """Send the counts of each round to the audit topic."""
    audit_topic: str
    markers: bool
    """Put a marker down for each month, day or hour that is complete."""
    metrics_port: int | None
    """Serve metrics for Prometheus there; 0: on a port that is free."""


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports that a loader makes, and where they go."""

    group: str = ""
    audit_topic: str = ""
    """The audit topic; if empty, no audit messages are sent."""
    markers: bool = False
    metrics_port: int | None = None


def reports(options: ReportOptions) -> Reports:
    """The reports for these options."""
    return Reports(
        group=options.get("group", ""),
        audit_topic=options.get("audit_topic", AUDIT_TOPIC) if options.get("audit", False) else "",
        markers=options.get("markers", False),
        metrics_port=options.get("metrics_port"),
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--group", default="", metavar="NAME", help="shows the lake's lag; default ottla-lake- and the loader's name"
    )
    parser.add_argument("--audit", action="store_true", help="send what each round brought to the audit topic")
    parser.add_argument("--audit-topic", default=AUDIT_TOPIC, metavar="TOPIC", help=f"default {AUDIT_TOPIC}")
    parser.add_argument(
        "--markers", action="store_true", help="put a _COMPLETE marker down for each day (hour, month) that is complete"
    )
    parser.add_argument(
        "--metrics-port", type=_port, metavar="N", help="serve metrics for Prometheus on 127.0.0.1:N/metrics"
    )


def chosen(options: argparse.Namespace) -> ReportOptions:
    """The options given on the command line."""
    return ReportOptions(
        group=options.group,
        audit=options.audit,
        audit_topic=options.audit_topic,
        markers=options.markers,
        metrics_port=options.metrics_port,
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"not a port: {text}")
    return int(text)
