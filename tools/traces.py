#!/usr/bin/env python
"""Compares simulated worlds at two commits, seed by seed: a change of structure must leave their traces as they were.

    python tools/traces.py COMMIT                  at COMMIT and the commit before it, 100 worlds of three brokers
    python tools/traces.py COMMIT --against OTHER  at OTHER instead
    python tools/traces.py A B C                   each of several commits and the one before it

A trace is the hash of all that happens in a world, in its order. Exit status 1 if any world differs.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PARTS = ("src", "setup.py", "pyproject.toml")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="+", metavar="COMMIT")
    parser.add_argument("--against", metavar="OTHER", help="compare with this commit (default: the one before)")
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds (default 100)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--brokers", type=int, default=3, help="in each world (default 3)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worlds at a time")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    differ = 0
    with tempfile.TemporaryDirectory(prefix="ottla-traces-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        trees = Trees(Path(folder))
        for commit in options.commits:
            pair = [trees.at(each) for each in (options.against or f"{commit}~1", commit)]
            told = [list(pool.map(lambda seed, tree=tree: world(tree, seed, options.brokers), seeds)) for tree in pair]
            unlike = [seed for seed, before, after in zip(seeds, *told, strict=True) if before != after]
            differ += len(unlike)
            note = f"; not {', '.join(map(str, unlike))}" if unlike else ""
            print(f"{subject(commit)}: {len(seeds) - len(unlike)} of {len(seeds)} worlds alike{note}", flush=True)
    return 1 if differ else 0


class Trees:
    """The sources of commits, each unpacked and built once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def at(self, commit: str) -> Path:
        name = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
        tree = self._folder / name
        if not tree.exists():
            with tarfile.open(fileobj=io.BytesIO(_git("archive", name, *_PARTS))) as archive:
                archive.extractall(tree, filter="data")
            build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(build, cwd=tree, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return tree


def world(tree: Path, seed: int, brokers: int) -> str:
    """All that `ottla sim` says of one world: its trace, or its anomalies."""
    command = [sys.executable, "-m", "ottla", "sim", "--brokers", str(brokers), "--seed", str(seed)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "trace" not in done.stdout and "replay:" not in done.stderr:
        raise SystemExit(f"no world from {tree}: {done.stderr}")
    return (done.stdout + done.stderr).replace(str(tree), "")


def subject(commit: str) -> str:
    return _git("log", "-1", "--format=%h %s", commit).decode().strip()


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    sys.exit(main())
