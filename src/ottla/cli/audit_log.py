"""`ottla audit-log`: whether the lines of an audit log are those that its broker wrote."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ottla.access.audit import AuditEnd, judge_lines, read_end
from ottla.cli.command import Command, counted, noun, print_json, wants_json
from ottla.cli.faults import text_of
from ottla.cli.options import Given


def command(arguments: Sequence[str]) -> int:
    return noun("audit-log", VERBS, arguments)


@dataclass(slots=True)
class AuditRead:
    """The newest lines of a log, and the judgement of all of them."""

    newest: deque[str]
    end: AuditEnd = field(default_factory=AuditEnd)
    faults: list[str] = field(default_factory=list)
    torn: str = ""
    """The file whose last line is not whole: it is being written, or a crash cut it."""


def read_log(paths: Sequence[str], wanted: str, count: int) -> AuditRead:
    """Read files that a broker may write to, the oldest first; `newest` are those with a text, whatever its case.

    The noted end is read before the lines, which may be more by then. Raises OSError and UnicodeDecodeError.
    """
    found, last, noted = AuditRead(deque(maxlen=count)), None, f"{paths[-1]}.last"
    if os.path.exists(noted):
        with open(noted, encoding="utf-8") as file:
            last = read_end(file.read())
    for path in paths:
        verdict = judge_lines(_lines(path, wanted.lower(), found), found.end)
        found.end = verdict.end
        found.faults += [f"{path}: {fault}" for fault in verdict.faults]
    if last is not None and last.lines >= found.end.lines and not found.faults:
        found.faults += [f"{paths[-1]}: {fault}" for fault in judge_lines((), found.end, last).faults]
    return found


def _lines(path: str, wanted: str, found: AuditRead) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                found.torn = path
                return
            if wanted in line.lower():
                found.newest.append(line)
            yield line


def _verify(given: Given) -> int:
    """Judge the files one behind the other; the noted end is that of the last."""
    end = AuditEnd()
    faults: list[str] = []
    for number, path in enumerate(given.words, 1):
        noted = f"{path}.last"
        last = read_end(text_of(noted)) if number == len(given.words) and os.path.exists(noted) else None
        verdict = judge_lines(text_of(path).splitlines(), end, last)
        end = verdict.end
        faults += [f"{path}: {fault}" for fault in verdict.faults]
    if wants_json(given):
        print_json({"lines": end.lines, "chain": end.chain, "faults": faults})
    else:
        sys.stdout.write("".join(f"{fault}\n" for fault in faults))
        whole = "" if faults else "as written: "
        sys.stdout.write(f"{whole}{counted(end.lines, 'line')}, the last with the hash {end.chain}\n")
    return 1 if faults else 0


VERBS = {
    "verify": Command(
        "ottla audit-log verify FILE...",
        "Find lines that were changed, cut off or taken out.\n\n"
        "Files that were renamed away come first, the oldest at the beginning. FILE.last, which the broker keeps "
        "beside it, tells of a cut end. Somebody who can write both can make a log anew: note the hash that this "
        "prints in another place, and compare. The exit code is 1 where a fault was found.",
        _verify,
        words=(1, 1000),
        connects=False,
    ),
}
