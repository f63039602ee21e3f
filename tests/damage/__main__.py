"""`make damage`: damages each kind of file of a broker in each way; ARGS="--cases 60" or ARGS="--only port".

With `--clocks` only the scenes with a fake clock are played (clocks.py); a campaign of all cases plays them too.
With `--resume FILE` each result is kept there, and cases in it are not run again: a whole campaign takes hours.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.damage import clocks
from tests.damage.campaign import Judged, prepared, run_all
from tests.damage.cases import SETTINGS, STOPS, cases_of, parse, sample
from tests.damage.harms import HARMS
from tests.damage.kinds import KINDS, Concerns, UnknownFile
from tests.damage.ledger import Ledger, planned, without
from tests.damage.story import CannotPrepare
from tests.damage.table import Page, as_json, as_page, as_text
from tests.damage.values import FIRST, ONE, Case


def main() -> int:
    options = _parser().parse_args()
    ledger = Ledger(options.resume)
    seed = options.seed if options.seed is not None else ledger.seed
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    if ledger.seed not in (None, seed):
        _say(f"damage: {options.resume} holds the results of the seed {ledger.seed}")
        return 2
    folder = options.folder / f"damage-{seed}-{time.time_ns() // 1_000_000}"
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the table so far is printed then too
    _say(f"seed {seed}, in {folder}")
    began = time.monotonic()
    try:
        if options.cases != 0 and not options.clocks:
            _run(options, seed, folder, ledger)
        lost = _play_clocks(folder) if options.clocks or _is_whole(options) else 0
    except (CannotPrepare, UnknownFile) as fault:
        _say(f"damage: {fault}")
        return 2
    results = ledger.results
    condemned = sum(bool(judged.findings) for judged in results)
    print(as_json(results, seed) if options.format == "json" else as_text(results, ledger.plan))
    if options.out is not None:
        options.out.write_text(as_page(results, Page(seed, _command(options), ledger.made, ledger.plan)))
    _say(f"{len(results)} cases, {condemned} condemned, in {(time.monotonic() - began) / 60:.1f} minutes; seed {seed}")
    if not (options.keep and condemned):
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if condemned or lost else 0


def _is_whole(options: argparse.Namespace) -> bool:
    return options.cases is None and not (options.only or options.damages or options.case or options.checks)


def _play_clocks(folder: Path) -> int:
    """Play all scenes with a fake clock; return the number of those in which something was wrong."""
    wrong = 0
    for at, scene in enumerate(clocks.SCENES):
        findings = clocks.play(scene, folder / f"clocks-{at}")
        wrong += bool(findings)
        verdict = "CONDEMNED " if findings else "ok        "
        _say("\n".join([f"{verdict} {scene.name}", *(f"        {each}" for each in findings)]))
    _say(f"{len(clocks.SCENES)} scenes with a fake clock, {wrong} condemned")
    return wrong


def _command(options: argparse.Namespace) -> str:
    """The command that repeats the same cases."""
    unlike = {"--out", str(options.out), "--resume", str(options.resume)}
    if options.cases == 0:
        unlike |= {"--cases", "0"}
    return " ".join(["python -m tests.damage", *(word for word in sys.argv[1:] if word not in unlike)])


def _run(options: argparse.Namespace, seed: int, folder: Path, ledger: Ledger) -> None:
    given = [parse(name) for name in options.case]
    settings = {case.setting for case in given} or set(options.settings)
    stops = {case.stop for case in given} or set(options.stops)
    templates = prepared(
        folder, {(1 if setting == ONE else 3, stop) for setting in settings for stop in stops}, options.jobs
    )
    cases = given or [
        case
        for case in cases_of(templates, seed, bits=options.bits, only=options.only)
        if case.setting in settings and (not options.damages or case.harm in options.damages)
        if not options.checks or (case.setting in (ONE, FIRST) and KINDS[case.kind].concerns is not Concerns.STORE)
    ]
    if not given:
        ledger.begin(seed, planned(cases))
        cases = without(sample(cases, len(cases), seed), ledger.results)[: options.cases]
    ended, commit = 0, _commit()

    def tell(judged: Judged) -> None:
        nonlocal ended
        ended += 1
        ledger.add(judged, commit, time.strftime("%Y-%m-%d"))
        _say(f"[{ended:4d}/{len(cases)}] {judged.outcome.took_s:5.1f} s  {_verdict(judged.case, judged)}")
        if options.case:
            for line in judged.outcome.lines:
                _say(f"        broker {line.broker} {line.level}: {line.text}")
            for told in (judged.outcome.checked, judged.outcome.doctored):
                _say("" if told is None else told.text)

    run_all(templates, cases, folder, seed, jobs=options.jobs, keep=options.keep, told=tell, checks=options.checks)


def _verdict(case: Case, judged: Judged) -> str:
    if not judged.findings:
        return f"ok         {case.name}"
    return "\n".join([f"CONDEMNED  {case.name}", *(f"        {each.word}: {each.what}" for each in judged.findings)])


def _commit() -> str:
    """The commit of the tree under test."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _memory() -> Path:
    """A folder in memory, if there is one: these tests need no real disk."""
    shared = Path("/dev/shm")
    has_room = shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 1 << 30
    return shared if has_room else Path(os.environ.get("TMPDIR", "/tmp"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make damage", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=[], metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--damages", nargs="+", choices=HARMS, default=[], help="only these")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=SETTINGS, help="one broker, or which of three"
    )
    parser.add_argument(
        "--stops", nargs="+", choices=STOPS, default=STOPS, help="how the brokers end before the damage"
    )
    parser.add_argument(
        "--bits", type=int, default=3, metavar="N", help="places in a file to flip a bit at (default 3)"
    )
    parser.add_argument("--clocks", action="store_true", help="only the scenes with a fake clock")
    parser.add_argument("--cases", type=int, metavar="N", help="a sample of so many, that leaves no kind out")
    parser.add_argument(
        "--case", action="append", default=[], metavar="NAME", help="this one, and what its brokers said"
    )
    parser.add_argument(
        "--checks", action="store_true", help="only `ottla log check` of the files: no broker is started"
    )
    parser.add_argument("--seed", type=int, help="of what is drawn (default: a new one)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases side by side (default 2)")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep results there, and do not run again what is there"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the result on stdout")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as a page of the docs")
    parser.add_argument("--folder", type=Path, default=_memory(), help="where to work")
    parser.add_argument("--keep", action="store_true", help="keep the folders of condemned cases")
    return parser


if __name__ == "__main__":
    sys.exit(main())
