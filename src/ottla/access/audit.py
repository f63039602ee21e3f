"""The lines of an audit log: each holds the hash of the one before it, so that a change, a cut or a gap is found. Pure.

Without a secret: who may write the file can make it anew as a whole. Keep the last hash elsewhere to find that, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

START = "0" * 64
"""The hash before the first line."""


class AuditEnd(NamedTuple):
    """The end of a log: how many lines there are, and the hash of the last."""

    lines: int = 0
    chain: str = START


class AuditVerdict(NamedTuple):
    """The end of a log that was read, and each fault in a sentence."""

    end: AuditEnd
    faults: tuple[str, ...]


def audit_line(event: Mapping[str, object], before: AuditEnd) -> tuple[str, AuditEnd]:
    """The line of an event, and the end of the log behind it."""
    content = {"number": before.lines + 1, **event}
    chain = _chain(content, before.chain)
    return json.dumps({**content, "chain": chain}) + "\n", AuditEnd(before.lines + 1, chain)


def judge_lines(lines: Iterable[str], start: AuditEnd | None = None, last: AuditEnd | None = None) -> AuditVerdict:
    """Compare the lines with their chain. `last`: the end that was noted elsewhere, if it was."""
    end, faults = start or AuditEnd(), []
    for place, text in enumerate(lines, 1):
        read = read_end(text)
        if read is None:
            faults.append(f"line {place}: it is no line of an audit log")
            continue
        content = json.loads(text)
        del content["chain"]
        if read.lines != end.lines + 1:
            due = f"number {end.lines + 1} is due: lines are missing"
            faults.append(f"line {place}: it is number {read.lines}, but {due}")
        elif _chain(content, end.chain) != read.chain:
            faults.append(f"line {place}: it, or the line before it, is not as it was written")
        end = read
    if last is not None and not faults and last != end:
        noted = f"number {last.lines} was noted as the last: lines are missing"
        faults.append(f"its end is number {end.lines}, but {noted}")
    return AuditVerdict(end, tuple(faults))


def read_end(text: str) -> AuditEnd | None:
    """The number and the hash that a line says of itself; None if it is no such line."""
    try:
        found = json.loads(text)
        number, chain = found["number"], found["chain"]
    except (ValueError, TypeError, KeyError):
        return None
    return AuditEnd(number, chain) if isinstance(number, int) and isinstance(chain, str) else None


def _chain(content: Mapping[str, object], before: str) -> str:
    return hashlib.sha256((before + json.dumps(content, sort_keys=True)).encode()).hexdigest()
