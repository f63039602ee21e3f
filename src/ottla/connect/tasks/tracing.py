"""One record on its way through a connector's chain, as it is behind each step. Nothing is sent anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.model import ConsumedRecord
from ottla.connect.errors import ConnectException
from ottla.connect.records import ConnectRecord, SourceRecord
from ottla.connect.tasks.conversion import TOLERABLE, Conversion, Outgoing, StageFault

Shown = ConnectRecord | ConsumedRecord | Outgoing


@dataclass(frozen=True, slots=True)
class Passed:
    """A step that a record went through."""

    step: str
    record: Shown | None = None
    """The record behind the step; None where the step dropped or refused it."""
    fault: Exception | None = None
    skipped: bool = False
    """True where the step's predicate left the record as it was."""


def traced_out(conversion: Conversion, record: SourceRecord) -> list[Passed]:
    """A source's record on its way to bytes."""
    way = [Passed("read", record, record.fault)]
    if record.fault is None:
        made = _transformed(conversion, record, way)
        if made is not None:
            try:
                way.append(Passed("converters", conversion.written(made)))
            except StageFault as fault:
                way.append(Passed(fault.stage.lower().replace("_", "."), fault=fault.error))
    return way


def traced_in(conversion: Conversion, read: ConsumedRecord) -> list[Passed]:
    """A topic's record on its way to a sink."""
    way = [Passed("read", read)]
    try:
        record = conversion.taken(read)
    except StageFault as fault:
        return [*way, Passed(fault.stage.lower().replace("_", "."), fault=fault.error)]
    way.append(Passed("converters", record))
    _transformed(conversion, record, way)
    return way


def _transformed(conversion: Conversion, record: ConnectRecord, way: list[Passed]) -> ConnectRecord | None:
    now: ConnectRecord | None = record
    for step in conversion.steps:
        assert now is not None
        name = f"transforms.{step.alias}"
        try:
            if not step.applies(now):
                way.append(Passed(name, now, skipped=True))
                continue
            now = step.transformation.apply(now)
        except (ConnectException, *TOLERABLE) as fault:
            way.append(Passed(name, fault=fault))
            return None
        way.append(Passed(name, now))
        if now is None:
            return None
    return now
