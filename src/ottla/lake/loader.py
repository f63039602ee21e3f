"""Topics into a directory of Parquet files: rounds of plan, write, publish, reveal, commit, each safe to be killed in.

Comes from command.py or `ottla.lake.load`. Plans are made in plans.py, kept by state.py, carried out by
write.py on the executors. Killed anywhere, the next loader carries a publication through or does a plan over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.kernel.ids import TopicPartition
from ottla.lake import json_columns
from ottla.lake.audit import progress_line
from ottla.lake.dead_letters import send_dead_letters
from ottla.lake.plans import Commit, LakeFile, LoadPlan, Publication, RangeCount, next_plan
from ottla.lake.settings import LoadSettings
from ottla.lake.state import LakeState
from ottla.lake.stores.base import LakeRefused
from ottla.lake.write import ColumnsWanted, RangeDone, RangeTask, write_range
from ottla.spark.connections import cluster
from ottla.spark.plan import SourceOffset
from ottla.spark.reader import read_decoded
from ottla.spark.survey import Retries, Survey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.spark")
SAMPLED_RECORDS = 2_000


@dataclass(slots=True)
class Loaded:
    """What a run brought into the lake."""

    counts: list[RangeCount] = field(default_factory=list)
    files: list[LakeFile] = field(default_factory=list)
    committed: Commit = field(default_factory=Commit)
    rounds: int = 0
    lost: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(count.rows for count in self.counts)

    @property
    def adds_up(self) -> bool:
        return all(count.adds_up for count in self.counts)


class Loader:
    """One run over one lake, whose state it holds."""

    def __init__(
        self, settings: LoadSettings, state: LakeState, spark: SparkSession, tell: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.state = state
        self.spark = spark
        self.tell = tell
        self.loaded = Loaded(committed=state.committed())
        self._survey = Survey(
            cluster(settings.kafka),
            settings.selection,
            read_committed=settings.kafka.read_committed,
            retries=Retries(),
        )

    def finish_what_was_begun(self) -> None:
        """Carry through or do over what the last loader was killed in."""
        unfinished = self.state.unfinished()
        if isinstance(unfinished, Publication):
            self.tell(f"round {unfinished.plan.number} was written already: revealing it")
            self._carry_through(unfinished)
        elif isinstance(unfinished, LoadPlan):
            self.tell(f"round {unfinished.number} was begun: doing it over")
            self._carry_out(unfinished, behind=0)

    def catch_up(self, stop: threading.Event | None = None) -> None:
        """Load what the topics hold now; what comes meanwhile is for the next time (as Trigger.AvailableNow)."""
        self.finish_what_was_begun()
        latest = self._latest()
        earliest = self._survey.earliest(latest.offsets.keys())
        while not (stop is not None and stop.is_set()):
            plan = next_plan(
                self.loaded.committed,
                latest,
                earliest,
                tasks=self.spark.sparkContext.defaultParallelism,
                most=self.settings.most_offsets,
                longest=self.settings.longest_range,
                accept_loss=self.settings.accept_loss,
            )
            if not plan.ranges:
                return
            self._note_lost(plan)
            plan = self._with_columns(plan)
            self.state.write_plan(plan)
            self._carry_out(plan, behind=self._waiting(latest) - sum(span.size for span in plan.ranges))

    def _latest(self) -> SourceOffset:
        assigned = self._survey.assigned()
        offsets, epochs = self._survey.latest(assigned, {})
        ids = {partition.topic: topic_id for partition, topic_id in assigned.items()}
        return SourceOffset(offsets, ids, epochs)

    def _waiting(self, latest: SourceOffset) -> int:
        done = self.loaded.committed.offsets
        return sum(max(0, end - done.get(partition, 0)) for partition, end in latest.offsets.items())

    def _carry_out(self, plan: LoadPlan, *, behind: int) -> None:
        """Write all ranges, again with more columns where JSON values have them, then publish."""
        began = time.monotonic()
        while True:
            done = self._write(plan)
            wanted = [result for result in done if isinstance(result, ColumnsWanted)]
            if not wanted:
                break
            plan = self._widened(plan, wanted)
            self.state.write_plan(plan)
        results = [result for result in done if isinstance(result, RangeDone)]
        faults = [result.first_fault for result in results if result.first_fault is not None]
        if faults and self.settings.dead_letter is None:
            raise LakeRefused(f"{faults[0]}. Such records go to a topic of yours with --dead-letter TOPIC")
        publication = Publication(
            plan,
            tuple(file for result in results for file in result.files),
            tuple(result.dead for result in results if result.dead is not None),
            tuple(result.count for result in results),
        )
        if wrong := [count for count in publication.counts if not count.adds_up]:
            raise LakeRefused(f"the counts do not add up, nothing was published: {wrong[0]}")
        self.state.write_publication(publication)
        self._carry_through(publication)
        self.tell(progress_line(plan.number, publication.files, time.monotonic() - began, max(0, behind)))

    def _carry_through(self, publication: Publication) -> None:
        """From a durable publication to the commit; every step may be repeated."""
        self.state.reveal(publication.files)
        if publication.dead:
            if self.settings.dead_letter is None:
                raise LakeRefused("the round has dead letters: name their topic with --dead-letter TOPIC")
            paths = [self.state.directory / name for name in publication.dead]
            send_dead_letters(cluster(self.settings.kafka), self.settings.dead_letter, paths)
        committed = self.loaded.committed.after(publication)
        self.state.write_commit(committed)
        self.loaded.committed = committed
        self.loaded.counts += publication.counts
        self.loaded.files += publication.files
        self.loaded.rounds += 1

    def _write(self, plan: LoadPlan) -> list[RangeDone | ColumnsWanted]:
        """One Spark task per range, the longest first; results in the order of the plan."""
        temporary = self.state.temporary(plan)
        tasks = [
            RangeTask(
                span=span,
                directory=str(self.state.directory.resolve()),
                temporary=temporary,
                kafka=self.settings.kafka,
                compression=self.settings.compression,
                target_bytes=self.settings.target_bytes,
                columns=plan.columns.get(span.topic),
                fixed_columns=span.topic in self.loaded.committed.columns,
            )
            for span in plan.ranges
        ]
        order = sorted(range(len(tasks)), key=lambda index: -tasks[index].span.size)
        context = self.spark.sparkContext
        done = context.parallelize([tasks[index] for index in order], len(tasks)).map(write_range).collect()
        results: dict[int, RangeDone | ColumnsWanted] = dict(zip(order, done, strict=True))
        return [results[index] for index in range(len(tasks))]

    def _with_columns(self, plan: LoadPlan) -> LoadPlan:
        """With --json: the columns that the lake has, for new topics those of a sample."""
        if not self.settings.json:
            return plan
        columns = {}
        for topic in sorted({span.topic for span in plan.ranges}):
            known = self.loaded.committed.columns.get(topic)
            columns[topic] = known if known is not None else json_columns.pack_schema(self._sampled(plan, topic))
        return replace(plan, columns=columns)

    def _sampled(self, plan: LoadPlan, topic: str) -> pa.Schema:
        schema = json_columns.EMPTY
        for span in [span for span in plan.ranges if span.topic == topic][:4]:
            short = replace(span, end=min(span.end, span.start + SAMPLED_RECORDS))
            for piece in read_decoded(short, self.settings.kafka):
                block = json_columns.decode(piece.batch.column("value"), schema, fixed=False)
                schema = json_columns.merge(schema, block.wanted, fixed=False)
        return schema

    def _widened(self, plan: LoadPlan, wanted: list[ColumnsWanted]) -> LoadPlan:
        columns = dict(plan.columns)
        for each in wanted:
            fixed = each.topic in self.loaded.committed.columns
            known = json_columns.unpack_schema(columns[each.topic])
            widened = json_columns.merge(known, json_columns.unpack_schema(each.columns), fixed=fixed)
            columns[each.topic] = json_columns.pack_schema(widened)
        return replace(plan, columns=columns)

    def _note_lost(self, plan: LoadPlan) -> None:
        for partition, count in sorted(plan.lost.items()):
            log.warning("%s: retention removed %d offsets before they were loaded", partition, count)
            self.loaded.lost[partition] = self.loaded.lost.get(partition, 0) + count
