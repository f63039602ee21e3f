"""The checks of a sink connector: whole runs, crashes, rebalances, refused records, a failing other side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ottla.connect.plugins.base import RefusedRecords, SinkConnector, SinkTask
from ottla.connect.plugins.rounds import place_of
from ottla.connect.records import SinkRecord
from ottla.connect.testing.side import Findings, MakeSide, OtherSide
from ottla.kernel.ids import TopicPartition

Identity = Callable[[SinkRecord], Any]


def check_sink(
    connector: type[SinkConnector],
    side: MakeSide,
    records: Sequence[SinkRecord],
    *,
    poison: SinkRecord | None = None,
    exactly_once: bool = False,
    identity: Identity = lambda record: record.value,
    patience_s: float = 10.0,
) -> None:
    """Drive a sink with records of at least two partitions; `PluginFaults` says what is wrong.

    `poison` is a record that the sink must refuse. `identity` is a record as `OtherSide.written` shows it. With
    `exactly_once` no record may be written twice, wherever the task is ended.
    """
    assert len({place_of(each) for each in records}) > 1, "give records of two partitions: see sink_records"
    findings = Findings(connector, patience_s)
    findings.check_options()
    run = _Runs(findings, records, identity, exactly_once=exactly_once)
    for story in (run.whole, run.crashed, run.crashed_behind_a_flush, run.rebalanced, run.never_opened, run.in_trouble):
        findings.run(partial(story, side()))
    if poison is not None:
        findings.run(lambda: run.poisoned(side(), poison))
    findings.result()


class _Runs:
    """Stories of one sink. Each is a task's life, or two of them one after the other."""

    def __init__(
        self,
        findings: Findings,
        records: Sequence[SinkRecord],
        identity: Identity,
        *,
        exactly_once: bool,
    ) -> None:
        self._findings, self._records = findings, list(records)
        self._identity, self._exactly_once = identity, exactly_once
        self._places = sorted({place_of(each) for each in records})
        self._half = len(records) // 2

    async def whole(self, side: OtherSide) -> None:
        """Put all in two batches, flush, close."""
        task = self._task(side)
        await task.open(self._places)
        await task.put(self._records[: self._half])
        await task.put(self._records[self._half :])
        self._check_flushed(side, await task.flush(), self._records, "behind flush()")
        await self._findings.closed(task)
        self._compare(side, self._records, "after a whole run", once=True)

    async def crashed(self, side: OtherSide) -> None:
        """End between put and flush: the worker has committed nothing, and a new task is given all again."""
        task = self._task(side)
        await task.open(self._places)
        await task.put(self._records[: self._half])
        await self._findings.closed(task)
        await self._again(side, self._places, self._records)
        self._compare(side, self._records, "after an end between put and flush", once=self._exactly_once)

    async def crashed_behind_a_flush(self, side: OtherSide) -> None:
        """End between flush and the worker's commit: all comes again, with more."""
        task = self._task(side)
        await task.open(self._places)
        await task.put(self._records[: self._half])
        await task.flush()
        await self._findings.closed(task)
        await self._again(side, self._places, self._records)
        self._compare(side, self._records, "after an end between flush and commit", once=self._exactly_once)

    async def rebalanced(self, side: OtherSide) -> None:
        """Another task takes a partition over, behind a flush."""
        stays, goes = self._places[:1], self._places[1:]
        task = self._task(side)
        await task.open(self._places)
        early, late = self._records[: self._half], self._records[self._half :]
        await task.put(early)
        await task.flush()
        await task.open(stays)
        ours = [each for each in late if place_of(each) in stays]
        await task.put(ours)
        await self._again(side, goes, [each for each in late if place_of(each) in goes])
        flushed = await task.flush()
        if strange := sorted(set(flushed or ()) - set(stays)):
            self._findings.say(f"flush() reports {strange[0]}, which was taken away: forget it in open()")
        await self._findings.closed(task)
        self._compare(side, self._records, "after a rebalance", once=self._exactly_once)

    async def never_opened(self, side: OtherSide) -> None:
        """A worker closes tasks that were given no partition."""
        await self._findings.closed_unused(self._task(side), "opened")

    async def in_trouble(self, side: OtherSide) -> None:
        """The other side fails: put or flush must say so, by an error that lets the worker try again."""
        if side.trouble is None:
            return
        task = self._task(side)
        with side.trouble():
            try:
                await task.open(self._places)
                await task.put(self._records)
                flushed = await task.flush()
            except Exception as fault:
                self._findings.require_restart(fault)
            else:
                self._check_flushed(side, flushed, self._records, "while the other side failed, behind flush()")
            finally:
                await self._findings.closed(task)
        await self._again(side, self._places, self._records)
        self._compare(side, self._records, "after the other side failed for a while", once=self._exactly_once)

    async def poisoned(self, side: OtherSide, poison: SinkRecord) -> None:
        """One record is refused: by RefusedRecords, and alone."""
        task = self._task(side)
        await task.open(self._places)
        refused: list[SinkRecord] = []
        try:
            await task.put([*self._records[: self._half], poison, *self._records[self._half :]])
        except RefusedRecords as fault:
            refused = [record for record, _ in fault.refused]
        except Exception as fault:
            self._findings.say(
                f"a record that cannot be written makes put() fail by {type(fault).__name__}: {fault}; "
                "raise RefusedRecords, so that only this record becomes a dead letter"
            )
            await self._findings.closed(task)
            return
        if not refused:
            self._findings.say("put() took the record that cannot be written: raise RefusedRecords for it")
        elif refused != [poison]:
            self._findings.say(f"{len(refused)} records were refused, and one cannot be written")
        await task.flush()
        await self._findings.closed(task)
        self._compare(side, self._records, "beside a refused record", once=True)

    async def _again(self, side: OtherSide, places: Collection[TopicPartition], records: list[SinkRecord]) -> None:
        task = self._task(side)
        await task.open(places)
        if records:
            await task.put(records)
        await task.flush()
        await self._findings.closed(task)

    def _task(self, side: OtherSide) -> SinkTask:
        task = self._findings.task(side)
        if not isinstance(task, SinkTask):
            raise TypeError(
                f"{type(task).__name__} reads its topics itself; the kit drives tasks that records are put to"
            )
        return task

    def _check_flushed(
        self, side: OtherSide, flushed: Mapping[TopicPartition, int] | None, put: Sequence[SinkRecord], when: str
    ) -> None:
        """Compare with the records that a worker commits after this flush: it will not send them again."""
        if flushed is None:
            committed = list(put)
        else:
            committed = [each for each in put if each.offset < flushed.get(place_of(each), 0)]
            for place, offset in flushed.items():
                if offset > max((each.offset + 1 for each in put if place_of(each) == place), default=0):
                    self._findings.say(f"flush() reports the offset {offset} of {place}, behind all that was put")
        self._compare(side, committed, when, once=False, all_known=False)

    def _compare(
        self, side: OtherSide, wanted: Sequence[SinkRecord], when: str, *, once: bool, all_known: bool = True
    ) -> None:
        have = Counter(side.written())
        want = Counter(self._identity(each) for each in wanted)
        if missing := [each for each in want if each not in have]:
            self._findings.say(
                f"{when}, {len(missing)} of {len(want)} records are missing on the other side: {missing[0]!r}"
            )
        if once and (twice := [each for each in want if have[each] > want[each]]):
            self._findings.say(f"{when}, {len(twice)} records are there more than once: {twice[0]!r}")
        if all_known and (strange := [each for each in have if each not in want]):
            self._findings.say(f"{when}, the other side has what nobody sent: {strange[0]!r}")
