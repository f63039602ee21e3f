"""This tree beside another commit of it: our side of the race's lines, measured by turns in one run.

`python -m bench.beside TREE [--only PART] [--skip PART] [--rounds N] [--whole]`; TREE is a worktree of the other commit
with a `.venv` of its own, as `make demo` makes it. Each tree runs its own lines on brokers of its own, by turns
(A B B A); the medians are compared. The last column says how far this tree's figure is better than the other's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import IO

from bench.brokers import ROOT
from bench.keeper import kept
from bench.lines import Line, all_lines
from bench.race import chosen

SLOWER = 0.95
"""Below this ratio a line counts as slower."""
SIDE = """
import json, sys
from pathlib import Path
from bench.lines import all_lines
from bench.rig import Rig
out = sys.stdout
sys.stdout = sys.stderr
rig = Rig(Path(sys.argv[1]), quick=sys.argv[2] == "quick")
lines = {line.name: line for line in all_lines()}
try:
    for row in sys.stdin:
        what, name = row.split()
        line = lines.get(name)
        if line is None:
            answer = None
        elif what == "warm":
            line.warm and line.warm(rig, line.contestants[0])
            answer = {}
        elif what == "finish":
            line.finish and line.finish(rig)
            answer = {}
        else:
            answer = line.measure(rig, line.contestants[0])
        print(json.dumps(answer), file=out, flush=True)
finally:
    rig.stop()
"""
"""The program of one side; it runs with that tree's own bench, so that what a line measures is that tree's too."""


class Side:
    """One tree: a process that runs lines when it is asked to."""

    def __init__(self, tree: Path, folder: Path, quick: bool) -> None:
        self.process = subprocess.Popen(
            [tree / ".venv" / "bin" / "python", "-c", SIDE, folder, "quick" if quick else "whole"],
            cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, what: str, line: Line) -> dict[str, float] | None:
        """Its figures; None where that tree has no such line. Raises RuntimeError where the line failed."""
        answer = ""
        with suppress(BrokenPipeError):
            print(what, line.name, file=pipe(self.process.stdin), flush=True)
            answer = pipe(self.process.stdout).readline()
        if not answer:
            raise RuntimeError(f"{line.name} failed there; what it said stands above")
        found: dict[str, float] | None = json.loads(answer)
        return found


def pipe(end: IO[str] | None) -> IO[str]:
    """The end of a pipe that Popen was asked for."""
    if end is None:
        raise RuntimeError("the process has no pipe")
    return end


@contextmanager
def side(tree: Path, folder: Path, quick: bool) -> Iterator[Side]:
    """A side that has ended, with its brokers, when the block ends."""
    folder.mkdir()
    made = Side(tree, folder, quick)
    try:
        yield made
    finally:
        with suppress(BrokenPipeError):
            pipe(made.process.stdin).close()
        made.process.wait()


def main(root: int) -> int:
    """Measure; return 1 where a line is slower than before by more than a twentieth."""
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.add_argument("tree", type=Path, help="a worktree of the other commit, with its .venv")
    parser.add_argument("--only", action="append", metavar="PART", help="lines whose name contains PART")
    parser.add_argument("--skip", action="append", metavar="PART", help="not those whose name contains PART")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each side")
    parser.add_argument("--whole", action="store_true", help="as many records as the whole race, not a fifth")
    parser.set_defaults(page=None)
    options = parser.parse_args()
    lines = [line for line in all_lines() if line.contestants[0].startswith("ottla") and chosen(line, options)]
    (ROOT / ".cache" / "bench").mkdir(parents=True, exist_ok=True)
    slower = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="beside-", dir=ROOT / ".cache" / "bench")))
        here = stack.enter_context(side(ROOT, folder / "here", not options.whole))
        there = stack.enter_context(side(options.tree.resolve(), folder / "there", not options.whole))
        print(f"{'line':<28}{'figure':<34}{'there':>14}{'here':>14}{'better':>9}")
        for place, line in enumerate(lines):
            slower += compared(line, here, there, options.rounds)
            following = lines[place + 1 :]
            if line.finish is not None and all(other.finish is not line.finish for other in following):
                here.ask("finish", line)
                there.ask("finish", line)
    print(f"{slower} figures more than {1 - SLOWER:.0%} worse than there" if slower else "no figure is 5 % worse")
    return 1 if slower else 0


def compared(line: Line, here: Side, there: Side, rounds: int) -> int:
    """Measure one line by turns and print its figures; return how many are worse here."""
    if here.ask("warm", line) is None or there.ask("warm", line) is None:
        print(f"{line.name:<28}only on one side")
        return 0
    runs: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for number in range(rounds):
        order = (here, there) if number % 2 else (there, here)
        for one in order:
            for key, value in (one.ask("measure", line) or {}).items():
                runs[one is here, key].append(value)
    worse = 0
    for figure in line.figures:
        ours, theirs = (median(runs[place, figure.key]) for place in (True, False))
        ratio = (ours / theirs if figure.more_is_better else theirs / ours) if ours and theirs else float("nan")
        worse += ratio < SLOWER
        print(f"{line.name:<28}{figure.title[:32]:<34}{theirs:>14,.4g}{ours:>14,.4g}{ratio:>9.3f}", flush=True)
    return worse


if __name__ == "__main__":
    sys.exit(kept(main))
