"""Brokers as processes with a fake wall clock: one scene of each kind; `make damage` plays all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.damage.clocks import Scene, play

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the fake clock")


@pytest.mark.slow
@pytest.mark.parametrize(
    "scene",
    [
        Scene("one", "at start", "+30 days"),
        Scene("one", "later", "-1 day"),
        Scene("all of three", "at start", "+30 days"),
        Scene("a follower that leads later", "at start", "+1 year"),
    ],
    ids=lambda scene: scene.name,
)
def test_nothing_acknowledged_is_gone_when_a_clock_is_off(scene: Scene, tmp_path: Path) -> None:
    assert play(scene, tmp_path) == []
