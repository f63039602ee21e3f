"""What a loader tells others besides loading: options on the command line and in Python."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict


class ReportOptions(TypedDict, total=False):
    """Options of `ottla.lake.load` about what a loader tells; all may be left out."""

    group: str
    """The consumer group that shows how far the lake is loaded; default `ottla-lake-` and the loader's name."""


@dataclass(frozen=True, slots=True)
class Reports:
    """What a loader tells, and where."""

    group: str = ""


def reports(options: Mapping[str, object]) -> Reports:
    """What the options say."""
    return Reports(group=str(options.get("group") or ""))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--group", default="", metavar="NAME", help="shows the lake's lag; default ottla-lake- and the loader's name"
    )


def chosen(options: argparse.Namespace) -> ReportOptions:
    """What was given on the command line."""
    return ReportOptions(group=options.group)
