"""Worlds that failed once, kept as scripts: they pass today, and fail again without their fix."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.scripts.player import Script, play, scripts
from tests.sim.scripts.run_script import kinds_without_mend

SCRIPTS = scripts()
_LEDGER = Path(__file__).parents[3] / "docs" / "internals" / "campaigns.md"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_world_that_was_red_once_is_green(script: Script):
    assert play(script).anomalies == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_without_its_mend_it_is_red_again(script: Script):
    assert kinds_without_mend(script) & set(script.found)


def test_each_script_is_of_a_world_in_the_ledger():
    rows = [line for line in _LEDGER.read_text().splitlines() if line.startswith("|")]
    for script in SCRIPTS:
        assert any(f" {script.seed}: " in row and f"mended in {script.mended}" in row for row in rows), script.name
    assert len(SCRIPTS) >= 20
