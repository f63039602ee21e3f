"""One attempt at a round, by workers: ranges into finished files, with columns wide enough for all of them.

Tasks whose values do not fit the columns report the types that they need; the columns are widened and those tasks run
again. Nothing of an attempt is visible before loader.py publishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from ottla.lake.columns import json_columns
from ottla.lake.columns.evolution import CannotWiden
from ottla.lake.columns.exact import kept_whole
from ottla.lake.columns.first_content import FirstContent, Firsts, first_places, new_places
from ottla.lake.columns.types import EMPTY, Misfit
from ottla.lake.columns.values import TEXT_COLUMNS, columns_of_rows, row_columns, same_columns
from ottla.lake.columns.windows import added_by_topic
from ottla.lake.notes.plans import Commit, LoadPlan, Publication, WrittenFile, bundles, counted, named_files
from ottla.lake.rounds.files import FileTarget
from ottla.lake.rounds.merge import merge_tasks
from ottla.lake.rounds.progress import RoundProgress
from ottla.lake.rounds.publishing import RoundPublisher
from ottla.lake.rounds.settings import LoadSettings
from ottla.lake.rounds.sift import row_filter
from ottla.lake.rounds.write import WriteDone, WriteTask, columns_in_order, write_merged, write_ranges
from ottla.rows.plan import OffsetRange
from ottla.rows.read import read_decoded
from ottla.rows.workers import Workers
from ottla.stores.base import LakeRefused

SAMPLED_RECORDS = 2_000
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class RoundAttempt:
    """One try at carrying a plan out."""

    def __init__(
        self,
        settings: LoadSettings,
        plan: LoadPlan,
        known: dict[str, str],
        folder: str,
        workers: Workers,
        progress: RoundProgress,
    ) -> None:
        self._settings = settings
        self._values = settings.values
        self._plan = plan
        self._known = known
        """Topic -> the columns that the lake has already."""
        self._workers = workers
        self._progress = progress
        self._target = FileTarget(
            folder,
            settings.shape.layout,
            settings.compression,
            settings.target_bytes,
            number=plan.number,
            in_place=settings.shape.format != "parquet" and not settings.shape.key,
            whole_rows=settings.shape.whole_rows,
        )
        self._columns: dict[str, str] = {}
        self._firsts: dict[str, Firsts] = {}
        """Topic -> where its new columns begin, once tasks must be told."""
        self._filter = row_filter(settings.shape)

    def publication(self) -> Publication:
        """The results of all ranges; LakeRefused if a record has no place and dead letters have no topic."""
        if self._settings.shape.columns:
            self._columns = {
                topic: self._first_columns(topic) for topic in sorted({s.topic for s in self._plan.ranges})
            }
        done = self._written()
        self._check_names()
        faults = [each.first_fault for each in done if each.first_fault is not None]
        if faults and self._settings.dead_letter is None:
            raise LakeRefused(f"{faults[0]}. Such records go to a topic of yours with --dead-letter TOPIC")
        files = [file for each in done for file in each.files] + self._merged(done)
        counts = counted(self._plan, (count for each in done for count in each.counts), files)
        if wrong := [count for count in counts if not count.adds_up]:
            raise LakeRefused(f"the counts do not add up, nothing was published: {wrong[0]}")
        return Publication(
            self._plan,
            named_files(
                self._plan.number, files, self._settings.shape.layout, in_place=self._settings.shape.format != "parquet"
            ),
            tuple(name for each in done for name in each.dead),
            counts,
            self._columns,
            self._target.folder,
            added_by_topic(each.windows for each in done),
            self._settings.values.renames.texts(span.topic for span in self._plan.ranges),
        )

    def _written(self) -> list[WriteDone]:
        """The results of all tasks, all with the same columns of a topic."""
        tasks = self._tasks()
        done: dict[int, WriteDone] = {}
        in_order: set[str] = set()
        pending = list(range(len(tasks)))
        changed = {span.topic for span in self._plan.ranges}
        while pending:
            self._check_types(changed)
            again = "reading again with wider columns" if changed else "reading again"
            self._progress.begin(again if done else "reading")
            firsts = {topic: self._firsts_of(topic) for topic in self._columns}
            given = [
                replace(tasks[index], columns=self._columns, firsts=firsts, pulse=self._progress.pulse(index))
                for index in pending
            ]
            done.update(zip(pending, self._run(write_ranges, given, lambda task: _size(task.spans)), strict=True))
            changed = self._widened([done[index] for index in pending], in_order)
            pending = [index for index, task in enumerate(tasks) if changed & {span.topic for span in task.spans}]
            pending = pending or self._early(done)
        return [done[index] for index in range(len(tasks))]

    def _check_types(self, topics: Iterable[str]) -> None:
        """LakeRefused where the filter has no answer over the columns of a topic."""
        for topic in sorted(topics) if self._filter is not None else ():
            assert self._filter is not None
            try:
                self._filter.check(self._row_columns(topic, self._columns.get(topic)))
            except LakeRefused as fault:
                raise LakeRefused(f"{fault} (topic {topic}). Nothing of this round was loaded") from None

    def _check_names(self) -> None:
        """LakeRefused where the filter names a field that no topic of the lake has: it may be misspelt."""
        if self._filter is None or self._settings.absent_is_null:
            return
        held = [self._row_columns(topic, packed) for topic, packed in {**self._known, **self._columns}.items()]
        if missing := self._filter.absent(held or [self._row_columns("", None)]):
            raise LakeRefused(
                f"--where names {', '.join(missing)}, which no record has had so far: nothing was loaded. With "
                f"--where-absent-is-null such a field is null until one comes"
            )

    def _row_columns(self, topic: str, packed: str | None) -> pa.Schema:
        shape = self._settings.shape
        columns = None if packed is None else columns_of_rows(topic, json_columns.unpack_schema(packed), shape)
        return row_columns(columns, shape)

    def _widened(self, done: Iterable[WriteDone], in_order: set[str]) -> set[str]:
        """Widen the columns by what tasks report; returns the topics whose columns changed.

        Where values of a topic were refused for their type, which of them came first decides. The tasks ran side by
        side, so such a topic's columns are found once more by reading its ranges one after the other.
        """
        before = dict(self._columns)
        unsure = {topic for each in done for topic in each.misfits if self._undecided(topic)}
        for each in done:
            for topic, wanted in each.wanted.items():
                try:
                    schema = self._values.merged(topic, self._schema(topic), json_columns.unpack_schema(wanted))
                except Misfit:
                    unsure.add(topic)
                else:
                    self._columns[topic] = json_columns.pack_schema(schema)
                    if self._values.of(topic).meets(schema):
                        unsure.add(topic)
        for topic in sorted(unsure - in_order):
            in_order.add(topic)
            self._columns[topic] = self._columns_in_order(topic)
        return {topic for topic, columns in self._columns.items() if columns != before[topic]}

    def _firsts_of(self, topic: str) -> Firsts:
        """The new columns of a topic, each with the place where it begins if that is known."""
        if self._values.kind in ("bytes", "text") or topic in self._firsts:
            return self._firsts.get(topic, {})
        known = self._known_columns(topic)
        held = EMPTY if known is None else json_columns.unpack_schema(known)
        return dict.fromkeys(new_places(self._schema(topic), held, json=self._values.kind == "json"))

    def _early(self, done: dict[int, WriteDone]) -> list[int]:
        """The tasks that read values of a column before it begins, which they know now."""
        seen: dict[str, dict[int, FirstContent]] = {}
        for index, each in done.items():
            for topic, found in each.seen.items():
                seen.setdefault(topic, {})[index] = found
        again = set()
        for topic in sorted(seen.keys() - self._firsts.keys()):
            firsts = first_places(self._firsts_of(topic), seen[topic].values())
            if early := {index for index, found in seen[topic].items() if found.is_early(firsts)}:
                self._firsts[topic] = firsts
                again |= early
        return sorted(again)

    def _undecided(self, topic: str) -> bool:
        """True if this round gives the topic columns that the lake does not have yet."""
        return self._columns[topic] != self._known_columns(topic)

    def _columns_in_order(self, topic: str) -> str:
        spans = self._spans(topic)
        self._progress.begin("settling the types of")
        known = self._known_columns(topic) or json_columns.pack_schema(EMPTY)
        values, kafka = self._settings.values, self._settings.kafka
        work = partial(columns_in_order, packed=known, values=values, kafka=kafka)
        (found,) = self._run(work, [spans], len)
        return found

    def _merged(self, done: Iterable[WriteDone]) -> list[WrittenFile]:
        self._progress.begin("joining the files of")
        parts = [part for each in done for part in each.parts]
        tasks = merge_tasks(self._settings.url, self._target, parts, self._workers.count)
        made = self._run(write_merged, tasks, lambda task: sum(part.bytes for part in task.parts))
        return [file for each in made for file in each]

    def _tasks(self) -> list[WriteTask]:
        shared = bundles(self._plan.ranges, tasks=self._workers.count, longest=self._settings.longest_range)
        readers: dict[str, int] = {}
        for spans in shared:
            for topic in {span.topic for span in spans}:
                readers[topic] = readers.get(topic, 0) + 1
        return [
            WriteTask(
                spans=spans,
                alone=frozenset(span.topic for span in spans if readers[span.topic] == 1),
                url=self._settings.url,
                target=self._target,
                kafka=self._settings.kafka,
                shape=self._settings.shape,
                values=self._settings.values,
            )
            for spans in shared
        ]

    def _run(self, work: Callable[[_Given], _Made], given: list[_Given], size: Callable[[_Given], int]) -> list[_Made]:
        """Run one task for each of `given`, the largest first; results in the order given."""
        if not given:
            return []
        order = sorted(range(len(given)), key=lambda index: -size(given[index]))
        results = self._workers.map(work, [given[index] for index in order])
        made: dict[int, _Made] = dict(zip(order, results, strict=True))
        return [made[index] for index in range(len(given))]

    def _spans(self, topic: str) -> list[OffsetRange]:
        """The ranges of a topic that hold something."""
        return [span for span in self._plan.ranges if span.topic == topic and span.size]

    def _schema(self, topic: str) -> pa.Schema:
        return json_columns.unpack_schema(self._columns[topic])

    def _first_columns(self, topic: str) -> str:
        """The columns that the lake has, for a new topic those of a sample."""
        known = self._known_columns(topic)
        if known is not None:
            return known
        sampled = self._sampled(topic)
        return (
            self._columns_in_order(topic)
            if self._values.of(topic).meets(sampled)
            else json_columns.pack_schema(sampled)
        )

    def _known_columns(self, topic: str) -> str | None:
        """The columns that the lake has already, under their present names."""
        packed = self._known.get(topic)
        if packed is None or not self._settings.values.renames.of(topic):
            return packed
        schema = json_columns.unpack_schema(packed)
        renamed = self._settings.values.renamed(topic, schema)
        return packed if same_columns(schema, renamed) else json_columns.pack_schema(renamed)

    def _sampled(self, topic: str) -> pa.Schema:
        """The columns of the first records of some ranges; values that do not go together are left to the tasks."""
        if self._settings.values.kind == "text":
            return TEXT_COLUMNS
        schema, reader = EMPTY, self._settings.values.reader(topic)
        for span in self._spans(topic)[:4]:
            short = replace(span, end=min(span.end, span.start + SAMPLED_RECORDS))
            values = self._settings.values
            for piece in read_decoded(short, self._settings.kafka, columns=values.fetched):
                schema = values.read(reader, piece.batch, schema).wanted
        return schema


def publishable(
    settings: LoadSettings,
    plan: LoadPlan,
    committed: Commit,
    folder: Callable[[], str],
    workers: Workers,
    publisher: RoundPublisher,
    progress: RoundProgress,
) -> Publication:
    """The results of a plan's ranges, which can be shown.

    A table may hold whole numbers that its column's wider type cannot hold, from an earlier version or another program.
    Then the column keeps its type, and the records that need the wider one are dead letters.
    """
    known = dict(committed.columns)
    while True:
        publication = RoundAttempt(settings, plan, known, folder(), workers, progress).publication()
        try:
            publisher.check(publication, committed)
        except CannotWiden as fault:
            held, wanted = known.get(fault.topic), publication.columns.get(fault.topic)
            if held is None or wanted is None:
                raise
            kept = kept_whole(json_columns.unpack_schema(held), json_columns.unpack_schema(wanted), fault.column)
            if kept is None:
                raise
            known[fault.topic] = json_columns.pack_schema(kept)
        else:
            return publication


def _size(spans: Iterable[OffsetRange]) -> int:
    return sum(span.size for span in spans)
