"""A sample of the damage campaign: each kind of file once, with damages, stops and settings that the seed draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.damage.campaign import Judged, prepared, run_all
from tests.damage.cases import cases_of, sample
from tests.damage.kinds import KINDS
from tests.damage.values import CLEAN, FIRST, KILL, LAST, ONE

SEED = 12
ONE_BROKER, THREE_BROKERS = 24, 8


def told(_: Judged) -> None:
    """Nobody waits for the progress of a test."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("settings", "count"), [((ONE,), ONE_BROKER), ((FIRST, LAST), THREE_BROKERS)])
def test_damaged_files_lose_nothing_in_silence(settings: tuple[str, ...], count: int, tmp_path: Path) -> None:
    brokers = 1 if settings == (ONE,) else 3
    templates = prepared(tmp_path, [(brokers, CLEAN), (brokers, KILL)], jobs=2)
    cases = [case for case in cases_of(templates, SEED, bits=1, only=()) if case.setting in settings]
    assert {case.kind for case in cases} <= set(KINDS)
    chosen = sample(cases, count, SEED)
    results = run_all(templates, chosen, tmp_path, SEED, jobs=2, keep=False, told=told)
    condemned = {judged.case.name: judged.findings for judged in results if judged.findings}
    assert not condemned
