"""Proves that a lake is complete: offset ranges without a gap or overlap, counts that add up, rows that are there.

Pure. A fact that cannot be known is not a fault: rounds may have been removed before their sum was kept, or a loader
may be at work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.kernel.ids import TopicPartition
from ottla.lake.audit.upkeep import PartitionWhere
from ottla.lake.notes.history import History
from ottla.lake.notes.plans import Commit, Publication
from ottla.lake.reports.status import Ends


@dataclass(slots=True)
class ProofFindings:
    """Sentences about faults, and about facts that cannot be known."""

    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, other: ProofFindings) -> None:
        """Add another's sentences."""
        self.wrong += other.wrong
        self.unknown += other.unknown


def ranges_follow(history: History, topics: Iterable[str]) -> ProofFindings:
    """Every round's range begins where the one before it ended, and the last one ends where the commit says."""
    chosen, found = set(topics), ProofFindings()
    stands = history.forgotten.commit if history.forgotten is not None else None
    if stands is None:
        first = history.rounds[0].plan.number if history.rounds else history.committed.number + 1
        found.unknown.append(f"rounds before {first} were forgotten before their sum was kept")
    for partition, gone in sorted(history.forgotten.lost.items()) if history.forgotten is not None else ():
        if partition.topic in chosen:
            found.wrong.append(f"{partition}: retention took {gone:,} offsets before they could be loaded")
    number = stands.number + 1 if stands is not None else None
    offsets: dict[TopicPartition, int] = dict(stands.offsets) if stands is not None else {}
    steps: dict[int, Publication | Commit] = {each.number: each for each in history.begun}
    steps |= {each.plan.number: each for each in history.rounds}
    for at in sorted(each for each in steps if stands is None or each > stands.number):
        if number is not None and at != number:
            found.wrong.append(f"round {number} is missing")
        number = at + 1
        _follow(steps[at], offsets, chosen, found)
    if number is not None and number != history.committed.number + 1:
        found.wrong.append(f"round {number} is missing")
    for partition, end in sorted(history.committed.offsets.items()):
        if partition.topic in chosen and partition in offsets and offsets[partition] != end:
            found.wrong.append(f"{partition}: the rounds end at offset {offsets[partition]}, the commit says {end}")
    return found


def counts_agree(history: History, topics: Iterable[str]) -> ProofFindings:
    """Every round's counts add up, and the rounds' rows add up to those of the commit."""
    chosen, found = set(topics), ProofFindings()
    rows: dict[TopicPartition, int] = {}
    for publication in history.rounds:
        for count in publication.counts:
            partition = count.span.topic_partition
            rows[partition] = rows.get(partition, 0) + count.rows
            if not count.adds_up and partition.topic in chosen:
                found.wrong.append(f"{partition}: the counts of round {publication.plan.number} do not add up")
    if history.forgotten is None:
        return found
    before = history.forgotten.commit.rows
    for partition in sorted({*history.committed.rows, *rows}):
        told, summed = history.committed.rows.get(partition, 0), before.get(partition, 0) + rows.get(partition, 0)
        if told != summed and partition.topic in chosen:
            found.wrong.append(f"{partition}: the rounds brought {summed:,} rows, the commit says {told:,}")
    return found


def rows_are_there(where: Iterable[PartitionWhere], committed: Commit, *, plain: bool, at_work: bool) -> ProofFindings:
    """The table or the files hold exactly the rows of the commit.

    `plain` files tell offsets only of the rows that they hold, and a table is made by the first round of its topic, not
    by the commit that says where the topic begins. While a loader is `at_work` on a publication, its rows may be there
    before the commit.
    """
    found = ProofFindings()
    for each in where:
        partition = TopicPartition(each.topic, each.partition)
        rows, end = committed.rows.get(partition, 0), committed.offsets.get(partition, 0)
        sentence = ""
        tells = not plain and bool(each.rows or each.in_table)
        if each.rows != rows:
            sentence = f"{partition}: {each.rows:,} rows are in the lake, the commit says {rows:,}"
        elif each.in_table > end or (tells and each.in_table != end):
            sentence = f"{partition}: the lake goes to offset {each.in_table:,}, the commit to {end:,}"
        if sentence and at_work and each.rows >= rows:
            found.unknown.append(f"{sentence}; a round is being published, ask again")
        elif sentence:
            found.wrong.append(sentence)
    return found


def cluster_agrees(history: History, topics: Iterable[str], ends: Ends) -> ProofFindings:
    """The topics are those that were loaded: not made anew, not shorter than the lake, and with all that waits."""
    chosen, found = set(topics), ProofFindings()
    for topic in sorted(chosen):
        loaded, there = history.committed.topic_ids.get(topic), ends.topic_ids.get(topic)
        if there is None:
            found.unknown.append(f"{topic}: the cluster has no such topic")
        elif loaded is not None and any(loaded) and any(there) and loaded != there:
            found.wrong.append(f"{topic}: the topic was deleted and created again since it was loaded")
    for partition, end in sorted(ends.latest.items()):
        committed = history.committed.offsets.get(partition, 0)
        if partition.topic not in chosen:
            continue
        if end < committed:
            found.wrong.append(f"{partition}: ends at offset {end} but was loaded up to {committed}")
        if (cut := ends.truncated.get(partition)) is not None:
            found.wrong.append(f"{partition}: was truncated to offset {cut} and was loaded up to {committed}")
        if removed := ends.removed(partition, history.committed):
            found.wrong.append(
                f"{partition}: offsets {committed}-{committed + removed} were removed before they were loaded"
            )
    return found


def _follow(
    step: Publication | Commit, offsets: dict[TopicPartition, int], chosen: set[str], found: ProofFindings
) -> None:
    """Compare one round's ranges with the state of the lake before it, and move on."""
    if isinstance(step, Commit):
        _begin(step, offsets, chosen, found)
        return
    lost: Mapping[TopicPartition, int] = step.plan.lost
    number = step.plan.number
    for span in step.plan.ranges:
        partition = span.topic_partition
        stood = offsets.get(partition)
        offsets[partition] = span.end
        if partition.topic not in chosen:
            continue
        gone = lost.get(partition, 0)
        if gone:
            found.wrong.append(f"{partition}: retention took {gone:,} offsets before round {number} could load them")
        if stood is None:
            continue
        if span.start > stood + gone:
            found.wrong.append(f"{partition}: offsets {stood + gone}-{span.start} are missing before round {number}")
        elif span.start < stood + gone:
            found.wrong.append(f"{partition}: offsets {span.start}-{stood + gone} came again in round {number}")


def _begin(commit: Commit, offsets: dict[TopicPartition, int], chosen: set[str], found: ProofFindings) -> None:
    """Take in where new topics begin; the others stay where they stand."""
    for partition, offset in sorted(commit.offsets.items()):
        stood = offsets.setdefault(partition, offset)
        offsets[partition] = offset
        if stood != offset and partition.topic in chosen:
            found.wrong.append(f"{partition}: offsets {stood}-{offset} are missing before round {commit.number + 1}")
