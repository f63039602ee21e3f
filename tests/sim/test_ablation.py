"""Tests of the judges: each safeguard is removed from the running source, and a few seeds reveal that it is gone.

The world that reveals it passes with the safeguard. The product has no switch for any of this.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import pytest
from tests.sim.cluster_mutants import CLUSTER_MUTANTS
from tests.sim.edited import run_edited
from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.run_mutant import anomalies, first_shown
from tests.sim.transaction_mutants import TRANSACTION_MUTANTS

SEEDS = 25
ALL_MUTANTS = (*MUTANTS, *CLUSTER_MUTANTS, *TRANSACTION_MUTANTS)


_sound = cache(anomalies)
"""The anomalies of a world with all safeguards: many mutants are shown by the same one."""


def worlds_of(mutant: Mutant) -> tuple[str, ...]:
    """The faults and the circumstances of the worlds in which a mutant is tried."""
    return (*mutant.faults, *mutant.circumstances)


@pytest.mark.parametrize("mutant", ALL_MUTANTS, ids=lambda mutant: mutant.safeguard.replace(" ", "-"))
def test_without_it_a_few_seeds_show_what_it_was_for(mutant: Mutant, caplog: pytest.LogCaptureFixture):
    shown = run_edited(mutant.edits, first_shown, mutant.brokers, mutant.first_seed, SEEDS, worlds_of(mutant))
    assert shown, f"{SEEDS} seeds from {mutant.first_seed} on did not miss it"
    assert set(shown[1:]) & set(mutant.caught_as), shown
    with caplog.at_level(logging.CRITICAL + 1, "ottla"):
        assert _sound(int(shown[0]), mutant.brokers, worlds_of(mutant)) == [], "with it that world is red, too"


def test_the_table_of_safeguards_names_each():
    table = (Path(__file__).parents[2] / "docs" / "internals" / "safeguards.md").read_text()
    for mutant in ALL_MUTANTS:
        row = f"| {mutant.safeguard} | `{mutant.file}` | {mutant.brokers} | {', '.join(worlds_of(mutant))} |"
        assert f"{row} {mutant.first_seed} | {', '.join(mutant.caught_as)} |" in table
