"""`make bench`: measures this broker and Apache Kafka by turns in one run, and writes the results down.

Each line is warmed up on both sides, then measured A B A B; medians are compared. Options: `--quick` (a fifth of the
records, three rounds), `--only PART` and `--skip PART` (lines by a part of their name; repeatable), `--rounds N`,
`--list`; `--page NAME` races the lines of one page.

A whole race is written into docs/reference/performance.md and, with the lines of Connect and Streams,
performance-connect-streams.md; so it waits for a quiet machine before it begins and before each line, and measures a
line again where something else used the machine meanwhile. Where that does not help, the pages stay as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from confluent_kafka import KafkaException

from bench.brokers import ROOT
from bench.keeper import kept
from bench.lines import Line, all_lines
from bench.quiet import LOAD_PER_CORE, OTHERS, Watch, wait_until_quiet
from bench.report import (
    PAGES,
    WITH_CHANGES,
    Outcome,
    Race,
    machine_facts,
    print_outcome,
    print_summary,
    save_results,
    write_performance,
)
from bench.rig import Rig, librdkafka_version

QUICK_ROUNDS = 3
ATTEMPTS = 3
"""A line is measured at most so often while something else uses the machine."""
PATIENCE_S = 900.0
"""For a quiet machine, before the race; a third of it before a line."""


def main(root: int) -> int:
    """Run the race; return 1 if a line could not be run. What is outside the family of `root` disturbs it."""
    options = parse_options()
    lines = [line for line in all_lines() if chosen(line, options)]
    if options.list or not lines:
        print("\n".join(line.name for line in all_lines()))
        return 0 if options.list else 2
    (ROOT / ".cache" / "bench").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="race-", dir=options.folder))
    rig = Rig(folder, quick=options.quick)
    whole = not options.quick and not options.only and not options.skip
    if whole:
        wait_until_quiet(root, show, at_most_s=PATIENCE_S, load=True)
    race = Race(machine_facts(folder) | {"librdkafka": librdkafka_version(), "quick": options.quick})
    print(f"librdkafka {librdkafka_version()}, data in {folder}")
    try:
        for number, line in enumerate(lines):
            rounds = options.rounds or (QUICK_ROUNDS if options.quick else line.rounds)
            race.outcomes.append((undisturbed if whole else observed)(root, rig, line, rounds))
            print_outcome(race.outcomes[-1])
            if line.finish is not None and line.finish not in [later.finish for later in lines[number + 1 :]]:
                with contextlib.suppress(KafkaException):
                    line.finish(rig)
        race.brokers = broker_facts(rig)
    finally:
        rig.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print_summary(race)
    print(f"raw runs: {save_results(race)}")
    if whole:
        pages = [options.page] if options.page else list(PAGES)
        print(written(race, pages))
    return 1 if any(outcome.fault for outcome in race.outcomes) else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the records, three rounds")
    parser.add_argument("--only", action="append", metavar="PART", help="lines whose name contains PART")
    parser.add_argument("--skip", action="append", metavar="PART", help="not those whose name contains PART")
    parser.add_argument("--rounds", type=int, help="runs of each side")
    parser.add_argument("--page", choices=sorted(PAGES), help="the lines of one page, written if all were run")
    parser.add_argument("--list", action="store_true", help="the names of all lines")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench", help="where the brokers keep data")
    return parser.parse_args()


def chosen(line: Line, options: argparse.Namespace) -> bool:
    """True if the options select the line."""
    if options.page and not PAGES[options.page].shows(line.name):
        return False
    if any(part in line.name for part in options.skip or ()):
        return False
    return not options.only or any(part in line.name for part in options.only)


def undisturbed(root: int, rig: Rig, line: Line, rounds: int) -> Outcome:
    """The line, measured while nothing else uses the machine; the last attempt where something always did."""
    for _ in range(ATTEMPTS):
        wait_until_quiet(root, show, at_most_s=PATIENCE_S / 3)
        outcome = observed(root, rig, line, rounds)
        if outcome.others <= OTHERS:
            break
    return outcome


def observed(root: int, rig: Rig, line: Line, rounds: int) -> Outcome:
    """The line, and how much of the machine others used."""
    with Watch(root) as watch:
        outcome = measure(rig, line, rounds)
    outcome.others = watch.share
    return outcome


def written(race: Race, pages: list[str]) -> str:
    """Write the pages, or say why not."""
    disturbed = [f"{outcome.line.name} {outcome.others:.0%}" for outcome in race.outcomes if outcome.others > OTHERS]
    if disturbed:
        return f"not written, as something else used more than {OTHERS:.0%} of the machine: {', '.join(disturbed)}"
    if race.load_per_core > LOAD_PER_CORE:
        return f"not written, as the load was {race.load_per_core:.2f} per core before it began"
    if not race.commit or race.commit.endswith(WITH_CHANGES):
        return f"not written, as no commit holds the code that ran: {race.commit or 'git is not here'}"
    return "\n".join(f"written: {write_performance(PAGES[page], race)}" for page in pages)


def measure(rig: Rig, line: Line, rounds: int) -> Outcome:
    """Warm both sides up, then run them by turns. A line that fails is reported, and the race continues."""
    outcome = Outcome(line)
    show(f"{line.name}: warm-up")
    try:
        for contestant in line.contestants:
            if line.warm is not None:
                line.warm(rig, contestant)
        for number in range(rounds):
            for contestant in line.contestants:
                show(f"{line.name}: {contestant} {number + 1} of {rounds}")
                run = line.measure(rig, contestant)
                outcome.runs[contestant].append(run | {"at": time.time()})
        for figure in line.figures:
            ours, theirs = (median(outcome.values(name, figure.key)) for name in line.contestants)
            outcome.ratios[figure.key] = ours / theirs if theirs else float("nan")
    except Exception as fault:
        outcome.fault = f"{type(fault).__name__}: {fault}"
    show("")
    return outcome


def broker_facts(rig: Rig) -> dict[str, dict[str, object]]:
    """Memory after the last run, and how each broker was started."""
    return {
        name: {
            "resident_mb": broker.resident_mb(),
            "peak_resident_mb": broker.resident_mb("VmHWM"),
            "cpu_seconds": broker.cpu_seconds(),
            "configuration": broker.configuration(),
        }
        for name, broker in rig.brokers.items()
    }


def show(text: str) -> None:
    """Show the current step, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(kept(main))
