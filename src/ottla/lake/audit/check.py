"""`ottla audit check` as a call: whether a lake is complete, and why not; nothing is changed.

From the broker to the lake by proof (proof.py), from the producers to the broker by counts (tiers.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.client.produce.audit_trail import AUDIT_TOPIC
from ottla.client.security import PLAINTEXT, Security
from ottla.lake.audit.proof import ProofFindings, cluster_agrees, counts_agree, ranges_follow, rows_are_there
from ottla.lake.audit.upkeep import Lake, PartitionWhere
from ottla.lake.columns.windows import WINDOW_US, Tally, window_of
from ottla.lake.notes.history import History
from ottla.lake.notes.plans import Publication
from ottla.lake.reports.status import Ends, cluster_ends, topic_complete_through, utc_text
from ottla.lake.reports.tiers import Compared, Comparison, Judgement, Messages, compare, read_messages

COMPLETE, NOT_COMPLETE, CANNOT_TELL = 0, 1, 2
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The scope and the strictness of a check."""

    bootstrap: str
    topics: Sequence[str] = ()
    audit_topic: str = AUDIT_TOPIC
    since_us: int | None = None
    delay_us: int = WINDOW_US
    """The time by which the lake may be behind, and after the end of a window until it is compared."""
    tolerance: float = 0.0
    quick: bool = False
    """Leave out the check of the rows in the table or the files."""
    security: Security = PLAINTEXT


@dataclass(slots=True)
class CheckFindings:
    """The findings of a check."""

    through: dict[str, str | None] = field(default_factory=dict)
    """From a topic to the time through which it is complete."""
    behind: dict[str, int | None] = field(default_factory=dict)
    """From a topic to the offsets that are not loaded; None where the cluster has no such topic."""
    findings: ProofFindings = field(default_factory=ProofFindings)
    compared: list[Compared] = field(default_factory=list)
    messages: Messages = field(default_factory=lambda: Messages([]))

    @property
    def status(self) -> int:
        """The exit status of the command."""
        if self.findings.wrong:
            return NOT_COMPLETE
        return CANNOT_TELL if self.findings.unknown else COMPLETE


def check(to: str | Path, options: CheckOptions, now_us: int) -> CheckFindings:
    """Check a lake. LakeRefused where there is none; ApiError and ClientError from the cluster, OSError from stores."""
    lake = Lake(to)
    topics = lake.topics(options.topics)
    history, where, at_work = _standing(lake, topics, quick=options.quick)
    ends = cluster_ends(
        options.bootstrap, topics, now_us, delay_us=options.delay_us, committed=history.committed,
        security=options.security,
    )  # fmt: skip
    checked = CheckFindings()
    if not topics:
        checked.findings.unknown.append("nothing was loaded into the lake yet")
    checked.findings.add(ranges_follow(history, topics))
    checked.findings.add(counts_agree(history, topics))
    checked.findings.add(cluster_agrees(history, topics, ends))
    plain = lake.shape.format == "parquet"
    checked.findings.add(rows_are_there(where, history.committed, plain=plain, at_work=at_work))
    until = _lag(checked, history, topics, ends, options, now_us)
    since_ms = None if options.since_us is None else options.since_us // 1000
    checked.messages = read_messages(
        options.bootstrap, options.audit_topic, since_ms=since_ms, security=options.security
    )
    windows = history.windows()
    rules = Comparison(
        until,
        None if options.since_us is None else -(-options.since_us // WINDOW_US),
        options.tolerance,
        {topic: _counted(topic, history, windows.get(topic)) for topic in topics},
    )
    checked.compared = compare(checked.messages.told, windows, rules)
    _judge(checked)
    return checked


def _standing(lake: Lake, topics: Sequence[str], *, quick: bool) -> tuple[History, list[PartitionWhere], bool]:
    """The lake's state and its rows of the same moment; whether a loader is publishing a round."""
    for _ in range(_ATTEMPTS):
        history = lake.history()
        where = [] if quick else lake.where(topics)
        after = lake.committed()
        at_work = isinstance(lake.unfinished(after), Publication)
        if after.number == history.committed.number:
            return history, where, at_work
    return history, where, True


def _lag(
    checked: CheckFindings, history: History, topics: Sequence[str], ends: Ends, options: CheckOptions, now_us: int
) -> dict[str, int]:
    """Note how far each topic is loaded; returns the first window of each that is too early to compare."""
    until = {}
    for topic in topics:
        partitions = [partition for partition in ends.latest if partition.topic == topic]
        overdue = sum(ends.overdue(partition, history.committed) for partition in partitions)
        through = topic_complete_through(topic, history.committed, ends, now_us)
        behind = sum(ends.behind(partition, history.committed) for partition in partitions)
        checked.behind[topic] = behind if topic in ends.topic_ids else None
        checked.through[topic] = utc_text(through)
        settled = now_us - options.delay_us
        if overdue:
            checked.findings.wrong.append(f"{topic}: {overdue:,} offsets wait longer than they may")
        until[topic] = window_of(settled if not overdue or through is None else min(settled, through))
    return until


def _counted(topic: str, history: History, tally: Tally | None) -> bool:
    """True if all rows of a topic were counted by window: lakes are older than these counts."""
    rows = sum(count for partition, count in history.committed.rows.items() if partition.topic == topic)
    return (sum(tally.rows) if tally is not None else 0) >= rows


def _judge(checked: CheckFindings) -> None:
    """Sum the windows up, a sentence for each topic and tier."""
    sums: dict[tuple[str, str, Judgement], list[Compared]] = {}
    for each in checked.compared:
        sums.setdefault((each.topic, each.tier, each.judgement), []).append(each)
    for (topic, tier, judgement), windows in sums.items():
        records = sum(abs(each.told - each.in_lake) for each in windows)
        of = f"{records:,} records in {len(windows):,} windows"
        if judgement is Judgement.MISSING:
            checked.findings.wrong.append(f"{topic}: {of} that tier {tier} counted are missing")
        elif judgement is Judgement.MORE:
            checked.findings.unknown.append(f"{topic}: {of} more than tier {tier} counted")
        elif judgement is Judgement.UNKNOWN:
            checked.findings.unknown.append(f"{topic}: {of} of tier {tier} may be from before windows were counted")
