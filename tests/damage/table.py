"""Shows a campaign's findings as a table of kinds and damages: on a terminal, as JSON, as a page of the docs."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.damage.campaign import Judged
from tests.damage.harms import HARMS
from tests.damage.judges import WORDS
from tests.damage.kinds import KINDS
from tests.damage.ledger import Plan
from tests.damage.values import ALONE, CLEAN, FIRST, KILL, LAST, ONE

NONE = "-"
"""No such case: the damage would change nothing, or no file of the kind has an older version."""
NOT_RUN = ""
_HEADINGS = {"bit": "one bit", "directory": "a directory", "link": "a link to nothing", "older": "an older one"}
MEANING = {
    "lost": "acknowledged records are missing without an error, or with three replicas at all",
    "changed": "a record has other content, or one is there that nobody wrote",
    "given twice": "a new record got an offset that was acknowledged before",
    "came back": "deleted records are there again",
    "taken twice": "a batch that was sent again was appended again",
    "offsets lost": "a group's committed offsets are others, without an error",
    "configuration lost": "a topic's configuration is another, or the topic is gone",
    "garbled": "bytes that differ from their checksum are served, and the broker does not notice",
    "sound replica changed": "a segment that nobody damaged lost bytes",
    "others suffer": "a partition that nobody damaged is not served whole, or takes no writes",
    "sound log refused": "records are refused though no segment is damaged",
    "fell": "a broker ended by itself after it was ready",
    "hung": "a broker neither starts nor ends",
    "traceback": "a traceback in a broker's log",
    "did not start": "a broker does not start, for a file that it can do without",
    "no remedy": "a broker refuses to start without naming the file and something to do",
    "did not stop": "a broker does not end by SIGTERM, or ends with an error",
    "wrong lookup": "ListOffsets by time answers something else",
    "readers differ": "confluent-kafka reads something else",
    "offsets not named": "records are refused, and no warning names their offsets",
    "unsaid": "no warning names the file or its partition",
    "doctor content": "a partition is not served whole, and `ottla doctor` does not name it",
    "check content": "`ottla log check` does not name the file or its partition",
    "check alarmed": "`ottla log check` finds fault with sound files",
}


class Page(NamedTuple):
    """The facts on a page about how its results were made."""

    seed: int
    command: str
    made: Mapping[tuple[str, str], int]
    """The number of results by (commit, day)."""
    plan: Plan


def rows(results: Sequence[Judged], plan: Plan) -> list[list[str]]:
    """The heading and a row for each kind: `ok 6`, or the worst finding with the number of condemned cases; in the last
    column, how many of the kind's cases ran."""
    cells: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for judged in results:
        cells[judged.case.kind, judged.case.harm].append(judged)
    found = [["", *(_HEADINGS.get(harm, harm) for harm in HARMS), "run"]]
    for kind in KINDS:
        if any((kind, harm) in cells or plan.get((kind, harm)) for harm in HARMS):
            row = [_cell(cells.get((kind, harm), []), plan.get((kind, harm), 0)) for harm in HARMS]
            ran = sum(len(cells.get((kind, harm), [])) for harm in HARMS)
            found.append([kind, *row, f"{ran} of {max(ran, sum(plan.get((kind, harm), 0) for harm in HARMS))}"])
    return found


def _cell(cell: Sequence[Judged], planned: int) -> str:
    if not cell:
        return NOT_RUN if planned else NONE
    condemned = [judged for judged in cell if judged.findings]
    if not condemned:
        return f"ok {len(cell)}"
    worst = min((judged.findings[0].word for judged in condemned), key=WORDS.index)
    return f"{worst} {len(condemned)}/{len(cell)}"


def as_text(results: Sequence[Judged], plan: Plan) -> str:
    """The table in aligned columns."""
    table = rows(results, plan)
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join(lines)


def as_json(results: Sequence[Judged], seed: int) -> str:
    entries = [
        {
            "case": judged.case.name,
            **judged.case._asdict(),
            "seconds": round(judged.outcome.took_s, 2),
            "findings": [finding._asdict() for finding in judged.findings],
        }
        for judged in results
    ]
    condemned = sum(bool(judged.findings) for judged in results)
    return json.dumps({"seed": seed, "cases": len(results), "condemned": condemned, "results": entries}, indent=1)


UNKNOWABLE = """
## What log check does not ask

`ottla log check` does not ask the cluster's metadata. It cannot tell that a log directory is older than the metadata
knows it, empty or gone, nor that a bit of `meta.properties` was another one; the start tells. It does not look at
`port`, nor at the metadata store, of which the start says what is wrong and where a backup goes. A flipped bit in a
time index goes unnoticed if the offset still lies in the same batch: lookups are right all the same. In the time index
of the segment that is written, a start compares only the last entry with its batch: searches pass over a wrong entry,
and a scrub finds it once the segment is closed. A lookup that is wrong is a finding.

## What nobody can know

- An older version of a closed segment of a *compacted* topic, from before its compaction: the last entry of its index
  does not fit, so the next start names it, or `ottla log check` before that, but it is whole and stays. Older values of
  a key are there again, in front of the newer ones; a deleted key is, if its tombstone has been compacted away in a
  later segment. Where compaction took records from its last batch alone, the entry fits, and nothing is said.
- An older `leader-epoch-checkpoint`, where a *single* batch was written since its last epoch, and no segment
  behind it: the batch has an epoch that the checkpoint does not know, as if a bit of its epoch had flipped, and is
  refused; with other replicas it is fetched again. With more the epochs are taken from the log, and that is said.
  Where nothing was written since, nothing is missed.
- A copy of a directory from the same run of the broker, put back after a kill, which was made within the last second
  before the broker wrote no more: its age (file `age`) is the one that the store knows, and it looks like what a crash
  leaves. With several replicas the others know it if they find it leading
  ([why](../decisions/0024-leaders-that-lack-what-was-committed.md)); if it starts after them, it fetches what it lacks
  as any replica does that was away. A single broker whose store lies in a log directory knows no such copy: its store
  goes back with it.
- The end of a log behind its checkpointed high watermark, where its last segment is removed after a kill: the
  checkpoint is up to `replica.high.watermark.checkpoint.interval.ms` old.

## Clocks

`make damage ARGS=--clocks` plays 32 scenes with a fake clock: brokers start with it, or it is set while they run; on a
single broker, on all of three, on a follower that leads later, on the leader; a day behind to a year ahead. Nothing
that was acknowledged may be gone, each broker whose clock is off says so once, and `ottla clock accept` ends the doubt.
At the commit 5194a9c4 on 2026-11-28 all 32 were right, in 8 minutes.
"""
_PLACE = re.compile(r"/\S*/root/")
"""The folder of a case."""


def as_page(results: Sequence[Judged], page: Page) -> str:
    """The text of docs/internals/damage.md: the findings of a command at a commit."""
    condemned = [judged for judged in results if judged.findings]
    words = sorted({finding.word for judged in condemned for finding in judged.findings}, key=WORDS.index)
    table = rows(results, page.plan)
    lines = [
        "# Damaged files",
        "",
        "Real brokers write a known set of records, committed offsets and configurations, and end, by SIGTERM or by",
        "`kill -9`. One file is damaged. `ottla log check` has to name it, and what to do. The brokers start, all is",
        "read back, from each broker as leader, and `ottla doctor` has to name what is not served whole.",
        "`make damage` does it again; `tests/damage` holds the kinds of files, the damages and the judges.",
        "",
        f"Made by `{page.command}`, which drew the seed {page.seed}, at {_commits(page.made)}.",
        "",
        f"{len(results)} of {max(len(results), sum(page.plan.values()))} cases have run, {len(condemned)} condemned.",
        "A cell counts the cases of both stops, of one broker, and of three where the damaged one starts first, last",
        "or alone. Empty: not run. A dash: there is no such case, as the damage changes nothing.",
        "",
        "|" + "|".join(f" {word} " for word in table[0]) + "|",
        "|" + "---|" * len(table[0]),
        *("|" + "|".join(f" {word} " for word in row) + "|" for row in table[1:]),
        "",
    ]
    lines += [*_by_setting(results), ""]
    if words:
        lines += ["| finding | meaning |", "|---|---|", *(f"| {word} | {MEANING[word]} |" for word in words), ""]
    lines += ["## What need not be said", "", "| file | damages | why |", "|---|---|---|"]
    for kind in KINDS.values():
        if silent := kind.silent | kind.silent_alone:
            harms = "all" if silent >= set(HARMS) else ", ".join(harm for harm in HARMS if harm in silent)
            harms += " (on one broker)" if kind.silent_alone else ""
            lines.append(f"| {kind.name} | {harms} | {kind.reason} |")
    if condemned:
        lines += ["", "## Condemned", ""]
        lines += [
            f"- `{judged.case.name}`: {judged.findings[0].word}: {_PLACE.sub('', judged.findings[0].what)}"
            for judged in condemned
        ]
    return "\n".join(lines) + "\n" + UNKNOWABLE


def _commits(made: Mapping[tuple[str, str], int]) -> str:
    """The commits, each with its number of cases if there are several."""
    if not made:
        return "no commit: nothing has run"
    if len(made) == 1:
        ((commit, day),) = made
        return f"commit {commit} on {day}"
    return "commits " + ", ".join(f"{commit} on {day} ({count} cases)" for (commit, day), count in made.items())


def _by_setting(results: Sequence[Judged]) -> list[str]:
    """A table of how many cases ran with each stop and setting."""
    counts = Counter((judged.case.stop, judged.case.setting) for judged in results)
    settings = {ONE: "one broker", FIRST: "three, damaged first", LAST: "damaged last", ALONE: "damaged alone"}
    lines = ["| cases run | " + " | ".join(settings.values()) + " |", "|" + "---|" * (len(settings) + 1)]
    for stop, name in ((CLEAN, "clean stop"), (KILL, "kill -9")):
        lines.append(f"| {name} | " + " | ".join(str(counts[stop, setting]) for setting in settings) + " |")
    return lines
