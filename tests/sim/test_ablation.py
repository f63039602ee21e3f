"""The judges are no ornament: a safeguard is taken out of a copy of the source, and a few seeds show that it is gone.

The same worlds are green while it is there. There is no switch for any of this in the product.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant

import ottla

SEEDS = 25
_RUNNER = Path(__file__).with_name("run_mutant.py")
_SOURCE = Path(ottla.__path__[0])


def run_worlds(tree: Path, first_seed: int, count: int, faults: tuple[str, ...]) -> list[str]:
    """The seed that showed an anomaly, and its kinds; empty where all were green."""
    command = [sys.executable, str(_RUNNER), str(first_seed), str(count), *faults]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("mutants")
    shutil.copytree(_SOURCE, copy / "ottla", ignore=shutil.ignore_patterns("__pycache__", "spark", "demo", "cli"))
    return copy


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.safeguard.replace(" ", "-"))
def test_without_it_a_few_seeds_show_what_it_was_for(mutant: Mutant, tree: Path):
    file = tree / "ottla" / mutant.file
    sound = file.read_text()
    assert sound.count(mutant.old) == 1, "the safeguard is written otherwise now: mend the mutant"
    try:
        file.write_text(sound.replace(mutant.old, mutant.new))
        shown = run_worlds(tree, mutant.first_seed, SEEDS, mutant.faults)
    finally:
        file.write_text(sound)
    assert shown, f"{SEEDS} seeds from {mutant.first_seed} on did not miss it"
    assert set(shown[1:]) & set(mutant.caught_as), shown


def test_with_all_of_them_the_same_worlds_are_green(tree: Path):
    assert (
        run_worlds(tree, 0, 8, ("power cut", "power cut in the middle", "clean restart", "failed sync", "kill")) == []
    )
