"""Topics into a lake of Parquet files: rounds of plan, write, publish, reveal, commit, each safe to be killed in.

Plans are made in plans.py, kept by state.py, carried out by attempt.py and its workers. Killed anywhere, the next
loader carries a publication through or does a plan over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from ottla.kernel.ids import TopicPartition
from ottla.lake.notes.plans import (
    Commit,
    LakeFile,
    LoadPlan,
    Publication,
    RangeCount,
    next_plan,
    still_there,
    still_whole,
)
from ottla.lake.notes.state import LakeState
from ottla.lake.reports.counts import progress_line
from ottla.lake.rounds.attempt import publishable
from ottla.lake.rounds.beginning import begun
from ottla.lake.rounds.dead_letters import send_dead_letters
from ottla.lake.rounds.past_due import past_due
from ottla.lake.rounds.progress import RoundProgress
from ottla.lake.rounds.publishing import publisher
from ottla.lake.rounds.reporting import Reporter
from ottla.lake.rounds.resume import resumed
from ottla.lake.rounds.settings import LoadSettings, with_renames
from ottla.rows.connections import cluster
from ottla.rows.plan import Offsets, SourceOffset
from ottla.rows.selection import Selection
from ottla.rows.survey import FetchRetries, Survey
from ottla.rows.workers import Workers
from ottla.stores.base import LakeRefused

log = logging.getLogger("ottla.spark")


@dataclass(slots=True, repr=False)
class Loaded:
    """The outcome of a load: what was read and where it went."""

    counts: list[RangeCount] = field(default_factory=list)
    """The counts of each range of offsets that was loaded."""
    files: list[LakeFile] = field(default_factory=list)
    """The files that were written."""
    committed: Commit = field(default_factory=Commit)
    """The state of the lake now: the next offset of each partition, and the rows ever loaded."""
    rounds: int = 0
    """The rounds that were committed."""
    lost: dict[TopicPartition, int] = field(default_factory=dict)
    """The offsets that retention deleted before they were loaded, where `accept_loss` skipped them."""

    def __repr__(self) -> str:
        lost = f", lost={sum(self.lost.values())}" if self.lost else ""
        return (
            f"Loaded(records={self.records}, rows={self.rows}, dead={self.dead}, filtered={self.filtered}, "
            f"files={len(self.files)}, rounds={self.rounds}, adds_up={self.adds_up}{lost})"
        )

    def take(self, publication: Publication, committed: Commit) -> None:
        """Add a round that was committed."""
        self.committed = committed
        self.counts += publication.counts
        self.files += publication.files
        self.rounds += 1

    @property
    def records(self) -> int:
        """The records that were read."""
        return sum(count.records for count in self.counts)

    @property
    def rows(self) -> int:
        """The rows that came into the lake."""
        return sum(count.rows for count in self.counts)

    @property
    def dead(self) -> int:
        """The records that went to the dead letter topic."""
        return sum(count.dead for count in self.counts)

    @property
    def filtered(self) -> int:
        """The records that the filter left out."""
        return sum(count.filtered for count in self.counts)

    @property
    def adds_up(self) -> bool:
        """True if every record that was read is a row, a dead letter, left out by the filter, or was aborted."""
        return all(count.adds_up for count in self.counts)


class Loader:
    """One run over one lake, whose state it holds. `workers` are asked for when a round is carried out."""

    def __init__(
        self,
        settings: LoadSettings,
        state: LakeState,
        workers: Callable[[LoadPlan], Workers],
        tell: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.state = state
        self.workers = workers
        self.tell = tell
        lost = resumed(settings, state) if settings.resume else None
        self.name = state.settle(settings.shape, loader=lost.loader if lost is not None else "")
        if lost is not None:
            state.adopt(lost.commit)
        self._publisher = publisher(settings.shape, state.store, self.name)
        self.loaded = Loaded(committed=state.committed())
        self._looked_at: set[str] = set()
        """Topics whose retention was compared with their records' times."""
        self._whole: Offsets = {}
        """The leader epochs in which logs were last found to hold all that was loaded."""
        with_renames(settings, self.loaded.committed.renames)
        self._survey = Survey(
            cluster(settings.kafka),
            settings.selection,
            read_committed=settings.kafka.read_committed,
            retries=FetchRetries(),
        )
        self._reporter = Reporter(
            settings.reports, settings.kafka, settings.shape, state, self.name, self.loaded.committed
        )
        state.tidy(self.loaded.committed)

    @property
    def metrics_port(self) -> int | None:
        """The port of this loader's metrics, if they are served."""
        return self._reporter.metrics_port

    def close(self) -> None:
        """Send no more reports."""
        self._reporter.close()

    def finish_what_was_begun(self, latest: SourceOffset) -> None:
        """Complete or repeat the round in which a loader was killed. `latest`: present ends of the chosen topics."""
        unfinished = self.state.unfinished(self.loaded.committed)
        if isinstance(unfinished, Publication):
            self.tell(f"round {unfinished.plan.number} was written already: revealing it")
            self._carry_through(unfinished)
        elif isinstance(unfinished, LoadPlan):
            self.tell(f"round {unfinished.number} was begun: doing it over")
            plan = self._still_there(unfinished)
            self._note_lost(plan)
            self._carry_out(plan, behind=self._behind(plan, latest, self._survey.earliest(latest.offsets.keys())))

    def catch_up(self, stop: threading.Event | None = None) -> None:
        """Load the records that the topics hold now; later ones are for the next time (as Trigger.AvailableNow)."""
        asked_us = time.time_ns() // 1000
        latest = self.latest()
        self.finish_what_was_begun(latest)
        latest = self._begin(latest)
        self._check_whole(latest)
        earliest = self._survey.earliest(latest.offsets.keys())
        self._reporter.asked(latest.offsets, earliest)
        while not (stop is not None and stop.is_set()):
            plan = next_plan(
                self.loaded.committed,
                latest,
                earliest,
                most=self.settings.most_offsets,
                accept_loss=self.settings.accept_loss,
            )
            if not plan.ranges:
                self._reporter.caught_up(asked_us)
                return
            self._note_lost(plan)
            self._check_new(span.topic for span in plan.ranges)
            self._warn_of_old_records(plan, asked_us // 1000)
            self.state.write_plan(plan)
            self._carry_out(plan, behind=self._behind(plan, latest, earliest))

    def _check_whole(self, latest: SourceOffset) -> None:
        """LakeRefused if a log was truncated below the offset that was loaded, also if it has grown again since."""
        loaded = still_whole(self.loaded.committed, latest)
        epochs = {partition: self._whole.get(partition, epoch) for partition, epoch in loaded.epochs.items()}
        for partition, end in sorted(self._survey.truncated(replace(loaded, epochs=epochs), latest.epochs).items()):
            raise LakeRefused(
                f"{partition} was truncated to offset {end} and was loaded up to {loaded.offsets[partition]}: a leader "
                f"was elected that lacked records of the lake, and others came in their place. Load the topic into "
                f"another directory"
            )
        self._whole = dict(latest.epochs)

    def _behind(self, plan: LoadPlan, latest: SourceOffset, earliest: Offsets) -> int:
        """Offsets of the chosen topics that are left after a plan."""
        done = {span.topic_partition: span.end for span in plan.ranges}
        stands = {**earliest, **self.loaded.committed.offsets, **done}
        return sum(max(0, end - stands[partition]) for partition, end in latest.offsets.items())

    def _begin(self, latest: SourceOffset) -> SourceOffset:
        """Write down the beginnings of topics that are new to the lake; returns ends that none of them lies behind.

        Records that came since the first look may lie before a beginning.
        """
        commit = begun(self.loaded.committed, latest, self.settings.beginning, self._survey)
        if commit is None:
            return latest
        self._check_new(commit.topic_ids)
        self.state.adopt(commit)
        self.loaded.committed = commit
        partitions = {partition: latest.topic_ids[partition.topic] for partition in latest.offsets}
        offsets, epochs = self._survey.latest(partitions, {})
        return replace(latest, offsets=offsets, epochs=epochs)

    def _check_new(self, topics: Iterable[str]) -> None:
        """LakeRefused where rows of topics that are new to the lake's state are there already."""
        for topic in sorted(set(topics) - self.loaded.committed.topic_ids.keys()):
            self._publisher.begin(topic)

    def latest(self) -> SourceOffset:
        """The present ends of the chosen topics; the dead letter topic is never one of those that a pattern chooses."""
        assigned = {
            partition: topic_id
            for partition, topic_id in self._survey.assigned().items()
            if partition.topic != self.settings.dead_letter
        }
        offsets, epochs = self._survey.latest(assigned, {})
        ids = {partition.topic: topic_id for partition, topic_id in assigned.items()}
        return SourceOffset(offsets, ids, epochs)

    def _still_there(self, plan: LoadPlan) -> LoadPlan:
        """The part of a plan that can still be read. The plan may have other topics than this loader."""
        topics = Selection(topics=tuple(sorted({span.topic for span in plan.ranges})))
        survey = Survey(
            self._survey.cluster, topics, read_committed=self.settings.kafka.read_committed, retries=FetchRetries()
        )
        assigned = survey.assigned(missing_is_fine=True) if topics.topics else {}
        ids = {partition.topic: topic_id for partition, topic_id in assigned.items()}
        earliest = survey.earliest(assigned)
        return still_there(plan, SourceOffset({}, ids), earliest, accept_loss=self.settings.accept_loss)

    def _carry_out(self, plan: LoadPlan, *, behind: int) -> None:
        """Write all ranges, then publish."""
        began = time.monotonic()
        committed, state = self.loaded.committed, self.state
        settings, workers = with_renames(self.settings, committed.renames), self.workers(plan)
        title, planned = f"round {plan.number}", sum(span.size for span in plan.ranges)
        with RoundProgress(title, planned, workers.host, self.tell) as progress:
            publication = publishable(
                settings, plan, committed, partial(state.attempt, plan), workers, self._publisher, progress
            )
        self.state.write_publication(publication)
        self._carry_through(publication)
        self.tell(progress_line(publication, time.monotonic() - began, behind))

    def _carry_through(self, publication: Publication) -> None:
        """From a durable publication to the commit; every step may be repeated."""
        before = self.loaded.committed
        committed = before.after(publication)
        self._publisher.show(publication, committed)
        if publication.dead:
            if self.settings.dead_letter is None:
                raise LakeRefused("the round has dead letters: name their topic with --dead-letter TOPIC")
            where = cluster(self.settings.kafka)
            send_dead_letters(where, self.settings.dead_letter, self.state.store, publication.dead)
        self.state.write_commit(committed, publication)
        self.loaded.take(publication, committed)
        self._reporter.committed(publication, before, committed)

    def _warn_of_old_records(self, plan: LoadPlan, now_ms: int) -> None:
        """Warn of records that retention may delete before they are loaded; once for each topic."""
        new = tuple(span for span in plan.ranges if span.topic not in self._looked_at)
        self._looked_at |= {span.topic for span in new}
        for sentence in past_due(new, self._survey, now_ms) if new else ():
            self.tell(f"warning: {sentence}")

    def _note_lost(self, plan: LoadPlan) -> None:
        for partition, count in sorted(plan.lost.items()):
            log.warning("%s: %d offsets were removed before they were loaded", partition, count)
            self.loaded.lost[partition] = self.loaded.lost.get(partition, 0) + count
