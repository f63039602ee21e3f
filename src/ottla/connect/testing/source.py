"""The checks of a source connector: whole runs, restarts behind each record, cancelled reads, a failing other side."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any

from ottla.connect import data
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.plugins.base import Config, SourceConnector, SourceTask
from ottla.connect.records import SourceRecord
from ottla.connect.testing.side import Findings, MakeSide, OtherSide, Stopped

_MOST_RESTARTS = 20
_CANCELLED_AFTER = (0, 1, 2, 3, 5, 8)
"""Turns of the event loop after which a read is cancelled."""
_TROUBLE_S = 0.3
_EMPTY_READS = 50
Told = tuple[Any, Any, str]


def check_source(
    connector: type[SourceConnector], side: MakeSide, *, records: int, poison: int = 0, patience_s: float = 10.0
) -> list[SourceRecord]:
    """Drive a source that has so many records to read; they are returned, `PluginFaults` says what is wrong.

    `poison` of them cannot be read: the source must give them as records with a `fault`.
    """
    findings = Findings(connector, patience_s)
    findings.check_options()
    run = _Runs(findings, records)
    first = findings.run(lambda: run.read_whole(side(), {})) or []
    if len(first) == records:
        _check_records(findings, first, poison)
        if all(each.source_offset is not None for each in first):
            _check_offsets(findings, connector, side().config, first)
            for behind in _spread(records):
                findings.run(partial(run.restarted, side(), first, behind))
        else:
            findings.run(lambda: run.read_whole(side(), {}))
        for turns in _CANCELLED_AFTER:
            findings.run(partial(run.cancelled, side(), turns))
        findings.run(lambda: run.never_started(side()))
        findings.run(lambda: run.in_trouble(side()))
    findings.result()
    return first


class _Kept:
    """Offsets as a worker keeps them: as JSON."""

    def __init__(self, offsets: Mapping[str, str]) -> None:
        self._offsets = offsets

    async def read(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """The offset of each partition."""
        found = (self._offsets.get(_key(each)) for each in partitions)
        return [None if each is None else json.loads(each) for each in found]


class _Runs:
    """Stories of one source. Each is a task's life from its making to its close."""

    def __init__(self, findings: Findings, records: int) -> None:
        self._findings, self._records = findings, records

    async def read_whole(self, side: OtherSide, kept: Mapping[str, str], wanted: int | None = None) -> list[Any]:
        """Read all records from these offsets on, as a worker does."""
        wanted = self._records if wanted is None else wanted
        task = self._findings.task(side)
        feeding: asyncio.Future[object] | None = None
        try:
            await task.start(_Kept(kept))
            if side.feed is not None:
                feeding = asyncio.ensure_future(side.feed(task))
            found = await self._fed(self._read(task, wanted), feeding)
            if feeding is not None:
                await self._findings.in_time(feeding, "records were acknowledged, and their sender has no answer")
            return found
        finally:
            if feeding is not None:
                feeding.cancel()
            await self._findings.closed(task)

    async def _fed(self, reading: Awaitable[list[SourceRecord]], feeding: asyncio.Future[object] | None) -> list[Any]:
        """The records; the fault of the sender where that is the reason for which they do not come."""
        try:
            return await reading
        except Stopped:
            if feeding is not None and feeding.done() and (fault := feeding.exception()) is not None:
                raise Stopped(f"feed failed: {type(fault).__name__}: {fault}") from fault
            raise

    async def restarted(self, side: OtherSide, first: Sequence[SourceRecord], behind: int) -> None:
        """Begin again with the offsets of the first records: the others come, each once."""
        where = f"begun again behind record {behind}"
        kept = {_key(each.source_partition or {}): json.dumps(each.source_offset) for each in first[:behind]}
        wanted = _by_partition(first[behind:])
        found: Sequence[SourceRecord] = []
        if behind < len(first):
            try:
                found = await self.read_whole(side, kept, len(first) - behind)
            except Stopped as stopped:
                raise Stopped(f"{where}, {stopped}: an offset must lie behind its own record, not further") from None
        if behind == 0 and _by_partition(found).keys() != wanted.keys():
            raise Stopped(
                f"the other side has other partitions each time, {', '.join(_by_partition(found))} now: keep names"
            )
        before = _by_partition(first[:behind])
        for partition, records in _by_partition(found).items():
            again = [each for each in records if each in before[partition] and each not in wanted[partition]]
            if again:
                raise Stopped(f"{where}, the source gave {again[0][1]!r} again: its offset must lie behind it")
            if records != wanted[partition]:
                raise Stopped(f"{where}, the source gave {_values(records)} instead of {_values(wanted[partition])}")

    async def cancelled(self, side: OtherSide, turns: int) -> None:
        """Cancel a read at one of its awaits, then begin again: nothing may be missing."""
        if side.feed is not None:
            return
        task = self._findings.task(side)
        await task.start(_Kept({}))
        reading = asyncio.ensure_future(task.read())
        for _ in range(turns):
            await asyncio.sleep(0)
        reading.cancel()
        await self._findings.in_time(asyncio.wait((reading,)), "read() did not end when it was cancelled")
        await self._findings.closed(task)
        try:
            await self.read_whole(side, {})
        except Stopped as stopped:
            raise Stopped(f"after a read that was cancelled, {stopped}") from None

    async def never_started(self, side: OtherSide) -> None:
        """A worker closes a task that could not start."""
        await self._findings.closed_unused(self._findings.task(side), "started")

    async def in_trouble(self, side: OtherSide) -> None:
        """The other side fails for a while. The task waits, or ends by an error that lets it be begun again."""
        if side.trouble is None:
            return
        with side.trouble():
            task = self._findings.task(side)
            try:
                await task.start(_Kept({}))
                ended = await asyncio.wait_for(task.read(), _TROUBLE_S)
                if ended is None:
                    raise Stopped(
                        "read() says that there will be nothing more while the other side fails: raise instead"
                    )
            except TimeoutError:
                pass
            except Stopped:
                raise
            except Exception as fault:
                self._findings.require_restart(fault)
            finally:
                await self._findings.closed(task)
        await self.read_whole(side, {})

    async def _read(self, task: SourceTask, wanted: int) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        empty = 0
        while len(found) < wanted:
            some = await self._findings.in_time(
                task.read(), f"the source gave {len(found)} of {wanted} records and then waited"
            )
            if some is None:
                raise Stopped(f"the source ended after {len(found)} of {wanted} records")
            empty = 0 if some else empty + 1
            if empty > _EMPTY_READS:
                raise Stopped("read() returns empty lists one after the other: let it wait until there are records")
            found += some
            offsets = [(each.source_partition, each.source_offset) for each in some]
            task.acknowledged(some)
            await task.commit([(p, o) for p, o in offsets if p is not None and o is not None])
        if len(found) > wanted:
            raise Stopped(f"the source gave {len(found)} records where {wanted} were left: {_values(_told(found))}")
        return found


def _check_records(findings: Findings, found: Sequence[SourceRecord], poison: int) -> None:
    for number, record in enumerate(found, 1):
        if not record.topic or not isinstance(record.topic, str):
            findings.say(f"record {number} has no topic")
        for name in ("source_partition", "source_offset"):
            content = getattr(record, name)
            if content is not None and not _is_json(content):
                findings.say(f"the {name} of record {number} is no object of JSON: {content!r}")
        if (record.source_partition is None) != (record.source_offset is None):
            findings.say(f"record {number} has only one of source_partition and source_offset: give both or neither")
        for part in ("key", "value"):
            _check_schema(findings, number, part, getattr(record, f"{part}_schema"), getattr(record, part))
    faults = sum(1 for each in found if each.fault is not None)
    if faults != poison:
        findings.say(
            f"{faults} records have a fault and {poison} cannot be read: give each as SourceRecord(…, fault=…), "
            "so that errors.tolerance decides"
        )


def _check_schema(findings: Findings, number: int, part: str, schema: data.Schema | None, value: Any) -> None:
    try:
        if schema is not None:
            data.validate(schema, value)
    except DataException as fault:
        findings.say(f"the {part} of record {number} does not fit its schema: {fault}")
    if schema is None and value is not None and data.inferred(value) is None:
        findings.say(f"the {part} of record {number} is a {type(value).__name__}, which no converter can write")


def _check_offsets(
    findings: Findings, connector: type[SourceConnector], config: Config, found: Sequence[SourceRecord]
) -> None:
    """Offsets that the task gives must be such as an operator may set; `check_offsets` may refuse all."""
    if connector.check_offsets.__func__ is SourceConnector.check_offsets.__func__:  # type: ignore[attr-defined]
        return
    try:
        connector.check_offsets(config, [(each.source_partition or {}, each.source_offset) for each in found])
    except ConfigException as fault:
        findings.say(f"check_offsets refuses an offset that the source gave itself: {fault}")


def _is_json(content: object) -> bool:
    try:
        return isinstance(content, dict) and bool(json.loads(json.dumps(content)) == content)
    except (TypeError, ValueError):
        return False


def _spread(records: int) -> list[int]:
    """The places where the source is begun again: behind each record, or evenly spread if there are many."""
    step = max(1, -(-records // _MOST_RESTARTS))
    return [*range(0, records, step), records]


def _key(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


def _told(records: Sequence[SourceRecord]) -> list[Told]:
    return [(each.key, each.value, "" if each.fault is None else str(each.fault)) for each in records]


def _by_partition(records: Sequence[SourceRecord]) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = defaultdict(list)
    for record in records:
        found[_key(record.source_partition or {})] += _told([record])
    return found


def _values(told: Sequence[Told]) -> str:
    shown = ", ".join(repr(value) for _, value, _ in told[:3])
    return f"[{shown}{', …' if len(told) > 3 else ''}]"
