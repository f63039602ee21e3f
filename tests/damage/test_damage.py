"""A sample of the damage campaign: each kind of file once, with damages, stops and settings that the seed draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.damage.campaign import Judged, prepared, run_all
from tests.damage.cases import cases_of, sample
from tests.damage.harms import HARMS
from tests.damage.kinds import KINDS
from tests.damage.values import CLEAN, FIRST, KILL, LAST, ONE

SEED = 12
ONE_BROKER, THREE_BROKERS = 24, 8
AT_LENGTH = 4
"""The times as many cases of a run with --long."""
OPEN = {
    "closed segment": {"older"},
    "leader-epoch-checkpoint": {"older"},
}
"""Damages that no broker can detect (docs/internals/damage.md), which the sample leaves out."""


def told(_: Judged) -> None:
    """Ignore progress."""


def test_what_is_left_out_are_known_kinds_and_damages() -> None:
    assert set(OPEN) <= set(KINDS)
    assert all(harms <= set(HARMS) for harms in OPEN.values())


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "count"), [((ONE,), ONE_BROKER), ((FIRST, LAST), THREE_BROKERS)])
def test_damaged_files_lose_nothing_in_silence(
    settings: tuple[str, ...], count: int, at_length: bool, tmp_path: Path
) -> None:
    brokers = 1 if settings == (ONE,) else 3
    templates = prepared(tmp_path, [(brokers, CLEAN), (brokers, KILL)], jobs=2)
    cases = [
        case
        for case in cases_of(templates, SEED, bits=1, only=())
        if case.setting in settings and case.harm not in OPEN.get(case.kind, ())
    ]
    assert {case.kind for case in cases} <= set(KINDS)
    chosen = sample(cases, count * AT_LENGTH if at_length else count, SEED)
    results = run_all(templates, chosen, tmp_path, SEED, jobs=2, keep=False, told=told)
    condemned = [f"{judged.case.name}: {finding}" for judged in results for finding in judged.findings]
    assert not condemned, "\n".join(condemned)
