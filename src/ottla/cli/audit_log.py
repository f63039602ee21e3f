"""`ottla audit-log`: whether the lines of an audit log are those that its broker wrote."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ottla.access.audit import AuditEnd, judge_lines, read_end
from ottla.cli.command import Command, counted, noun, print_json, wants_json
from ottla.cli.faults import text_of
from ottla.cli.options import Given


def command(arguments: Sequence[str]) -> int:
    return noun("audit-log", VERBS, arguments)


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
