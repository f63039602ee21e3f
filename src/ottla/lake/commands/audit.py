"""`ottla lake audit` and `ottla audit check`: whether a lake is complete, by exit status."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientError
from ottla.client.produce.audit_trail import AUDIT_TOPIC
from ottla.kernel.errors import ApiError
from ottla.kernel.quantities import duration_ms, moment_ms
from ottla.lake import LakeRefused
from ottla.lake.commands.load_arguments import with_times_joined
from ottla.lake.commands.parser import Parser

if TYPE_CHECKING:
    from ottla.lake.audit.check import CheckFindings

_SHOWN = 20
_CANNOT_TELL = 2


def command(arguments: Sequence[str]) -> int:
    """Run `ottla audit ...`; 0: complete, 1: not complete, 2: that cannot be told."""
    return run(_parser().parse_args(with_times_joined(arguments)), "ottla audit check")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="ottla audit", description="Whether all that was sent is in the lake.")
    verbs: Any = parser.add_subparsers(dest="verb", required=True)
    add_verb(verbs, "check", "The same as `ottla lake audit`. ")
    return parser


def run(options: argparse.Namespace, program: str) -> int:
    """Carry the check out; the exit status."""
    if find_spec("pyarrow") is None:
        print(f"{program}: needs pyarrow: pip install 'ottla[lake]'", file=sys.stderr)
        return _CANNOT_TELL
    from ottla.lake.audit.check import CheckOptions, check

    asked = CheckOptions(
        bootstrap=options.bootstrap_server,
        topics=options.topics,
        audit_topic=options.audit_topic,
        since_us=options.since,
        delay_us=options.delay * 1000,
        tolerance=options.tolerance,
        quick=options.quick,
        security=options.security,
    )
    try:
        checked = check(options.to, asked, time.time_ns() // 1000)
    except (LakeRefused, ApiError, ClientError, OSError) as fault:
        print(f"{program}: cannot tell: {fault}", file=sys.stderr)
        return _CANNOT_TELL
    if options.format == "json":
        json.dump(_document(checked), sys.stdout)
        sys.stdout.write("\n")
    else:
        sys.stdout.write("\n".join(_lines(checked)) + "\n")
    return checked.status


def add_verb(verbs: argparse._SubParsersAction[Parser], name: str, about: str = "") -> None:
    """Declare the check as a verb of this name."""
    check = verbs.add_parser(
        name,
        help="check that a lake is complete",
        description=f"{about}Prove by offsets that the lake holds what the broker held, and compare with what "
        "producers counted. Exit status 0: complete, 1: not complete, 2: that cannot be told.",
    )
    check.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all of the lake's")
    check.add_argument("--to", required=True, metavar="PLACE", help="the lake")
    check.add_argument(
        "-b", "--bootstrap-server", default="localhost:9092", metavar="HOST:PORT", help="default localhost:9092"
    )
    check.add_argument("--audit-topic", default=AUDIT_TOPIC, metavar="TOPIC", help=f"default {AUDIT_TOPIC}")
    check.add_argument(
        "--since", type=_time, metavar="TIME", help="compare windows from then on: 2026-01-31, -7d, yesterday"
    )
    check.add_argument(
        "--delay", type=_delay, default="10m", metavar="TIME", help="how far behind a lake may be; default 10m"
    )
    check.add_argument(
        "--tolerance",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="that counts may differ by, e.g. 0.001; default 0",
    )
    check.add_argument("--quick", action="store_true", help="do not look into the table or the files")
    check.add_argument("--format", choices=("text", "json"), default="text", help="of the answer; default text")


def _document(checked: CheckFindings) -> dict[str, object]:
    from ottla.lake.columns.windows import window_start

    return {
        "status": ("complete", "not complete", "cannot tell")[checked.status],
        "wrong": checked.findings.wrong,
        "unknown": checked.findings.unknown,
        "topics": [
            {"topic": topic, "complete_through": through, "behind": checked.behind[topic]}
            for topic, through in checked.through.items()
        ],
        "windows": [
            {
                "tier": each.tier,
                "topic": each.topic,
                "window_start": window_start(each.window).isoformat(timespec="seconds"),
                "told": each.told,
                "in_lake": each.in_lake,
                "judgement": each.judgement.value,
            }
            for each in checked.compared
        ],
        "messages": {"repeated": checked.messages.repeated, "unreadable": checked.messages.unreadable},
    }


def _lines(checked: CheckFindings) -> list[str]:
    from ottla.lake.reports.counts import aligned
    from ottla.lake.reports.tiers import Judgement

    rows: list[list[str]] = [["topic", "complete through", "behind", "windows compared", "windows complete"]]
    for topic, through in checked.through.items():
        windows = [each.judgement for each in checked.compared if each.topic == topic]
        closed = [each for each in windows if each is not Judgement.OPEN]
        complete = closed.count(Judgement.COMPLETE)
        behind = checked.behind[topic]
        waiting = "?" if behind is None else f"{behind:,}"
        rows.append([topic, through or "?", waiting, f"{len(closed):,}", f"{complete:,}"])
    lines = aligned(rows)
    for word, sentences in (("wrong", checked.findings.wrong), ("cannot tell", checked.findings.unknown)):
        lines += [f"{word}: {sentence}" for sentence in sentences[:_SHOWN]]
        if len(sentences) > _SHOWN:
            lines.append(f"{word}: and {len(sentences) - _SHOWN:,} more")
    if checked.messages.unreadable:
        lines.append(f"{checked.messages.unreadable:,} messages of the audit topic could not be read")
    return [*lines, f"audit: {('complete', 'NOT COMPLETE', 'cannot tell')[checked.status]}"]


def _time(text: str) -> int:
    """Microseconds since 1970; without a zone in UTC."""
    try:
        return moment_ms(text, time.time_ns() // 1_000_000) * 1000
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault


def _delay(text: str) -> int:
    try:
        return duration_ms(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"not a share between 0 and 1: {text}")
    return share
