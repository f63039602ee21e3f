"""Tests of the judges: each safeguard is removed from a copy of the source, and a few seeds reveal that it is gone.

The world that reveals it passes with the safeguard. The product has no switch for any of this.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sim.cluster_mutants import CLUSTER_MUTANTS
from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.run_mutant import anomalies
from tests.sim.transaction_mutants import TRANSACTION_MUTANTS

import ottla

SEEDS = 25
ALL_MUTANTS = (*MUTANTS, *CLUSTER_MUTANTS, *TRANSACTION_MUTANTS)
_RUNNER = Path(__file__).with_name("run_mutant.py")
_SOURCE = Path(ottla.__path__[0])


def worlds_of(mutant: Mutant) -> tuple[str, ...]:
    """The faults and the circumstances of the worlds in which a mutant is tried."""
    return (*mutant.faults, *mutant.circumstances)


def run_worlds(tree: Path, brokers: int, first_seed: int, count: int, faults: tuple[str, ...]) -> list[str]:
    """The seed that showed an anomaly, and its kinds; empty if all were green, or there was none to run."""
    command = [sys.executable, str(_RUNNER), str(brokers), str(first_seed), str(count), *faults]
    environment = os.environ | {"PYTHONPATH": str(tree)} | ({"PYTHONDONTWRITEBYTECODE": "1"} if count else {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with its bytecode, to which runs of mutants add none: an edit may be a second old."""
    copy = tmp_path_factory.mktemp("mutants")
    shutil.copytree(_SOURCE, copy / "ottla", ignore=shutil.ignore_patterns("__pycache__", "spark", "demo", "cli"))
    run_worlds(copy, brokers=1, first_seed=0, count=0, faults=())
    return copy


@pytest.mark.parametrize("mutant", ALL_MUTANTS, ids=lambda mutant: mutant.safeguard.replace(" ", "-"))
def test_without_it_a_few_seeds_show_what_it_was_for(mutant: Mutant, tree: Path, caplog: pytest.LogCaptureFixture):
    sound = {file: (tree / "ottla" / file).read_text() for file, _, _ in mutant.edits}
    try:
        for file, old, new in mutant.edits:
            text = (tree / "ottla" / file).read_text()
            assert text.count(old) == 1, "the safeguard is written otherwise now: mend the mutant"
            (tree / "ottla" / file).write_text(text.replace(old, new))
        shown = run_worlds(tree, mutant.brokers, mutant.first_seed, SEEDS, worlds_of(mutant))
    finally:
        for file in sound:
            shutil.copy2(_SOURCE / file, tree / "ottla" / file)  # as old as its bytecode
    assert shown, f"{SEEDS} seeds from {mutant.first_seed} on did not miss it"
    assert set(shown[1:]) & set(mutant.caught_as), shown
    with caplog.at_level(logging.CRITICAL + 1, "ottla"):
        assert anomalies(int(shown[0]), mutant.brokers, worlds_of(mutant)) == [], "with it that world is red, too"


def test_the_table_of_safeguards_names_each():
    table = (Path(__file__).parents[2] / "docs" / "internals" / "safeguards.md").read_text()
    for mutant in ALL_MUTANTS:
        row = f"| {mutant.safeguard} | `{mutant.file}` | {mutant.brokers} | {', '.join(worlds_of(mutant))} |"
        assert f"{row} {mutant.first_seed} | {', '.join(mutant.caught_as)} |" in table
