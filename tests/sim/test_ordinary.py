"""Safeguards whose removal ordinary worlds must reveal: each removal applies, and some show within a few seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.edited import SOURCE
from tests.sim.ordinary import run_without
from tests.sim.ordinary_mutants import REMOVALS, Removal
from tests.sim.transaction_mutants import TRANSACTION_MUTANTS

_SOON = {
    "fetch epoch not compared": (0, "other-epoch"),
    "epoch checkpoint not synced": (8, "epoch-not-on-disk"),
    "old generation may commit": (0, "old-generation"),
    "cut file not marked dirty": (0, "never-synced"),
    "older producer epoch accepted": (0, "older-epoch"),
    "lease ignored in produce": (16, "without-lease"),
    "lease ignored in fetch": (16, "without-lease"),
    "receipts kept across incarnations": (23, "not-on-disk"),
    "truncation leaves the epoch cache": (402, "stuck"),
}
"""(first seed, kinds of anomalies) for removals of which at least one shows within a few seeds."""
_SEEDS = 5


@pytest.mark.parametrize("removal", REMOVALS, ids=lambda removal: removal.safeguard.replace(" ", "-"))
def test_each_safeguard_stands_where_its_removal_looks_for_it(removal: Removal):
    for file, old, _ in removal.edits:
        assert (SOURCE / file).read_text().count(old) == 1, file


@pytest.mark.parametrize("safeguard", _SOON)
def test_ordinary_worlds_miss_it_within_a_few_seeds(safeguard: str):
    (removal,) = (each for each in REMOVALS if each.safeguard == safeguard)
    first_seed, kind = _SOON[safeguard]
    shown = run_without(removal, 3, first_seed, _SEEDS)
    assert shown
    assert kind in shown[0]


def test_sixteen_are_counted_and_each_is_in_the_docs():
    table = (Path(__file__).parents[2] / "docs" / "internals" / "safeguards.md").read_text()
    assert len({removal.safeguard for removal in REMOVALS}) == 16
    for removal in REMOVALS:
        assert f"| {removal.safeguard} |" in table


def test_each_safeguard_of_transactions_is_counted_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "internals" / "safeguards.md").read_text()
    counted = page.partition("## In ordinary worlds")[2]
    for mutant in TRANSACTION_MUTANTS:
        assert f"| {mutant.safeguard} |" in counted
