"""franz-go's members of consumer groups (KIP-848)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from exchange import BROKERS
from franz_go import command, compiled

pytestmark = pytest.mark.compat


@pytest.fixture(scope="session")
def franz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("go") / "franz")


def test_franz_gos_members_share_the_partitions_of_a_consumer_group(franz: Path, bootstrap: str, name: str) -> None:
    play(franz, bootstrap, name, "share")


def test_franz_gos_static_member_has_its_partitions_again_after_a_restart(
    franz: Path, bootstrap: str, name: str
) -> None:
    play(franz, bootstrap, name, "restart")


def play(franz: Path, bootstrap: str, name: str, scene: str) -> None:
    """Play a scene to its last line."""
    done = subprocess.run(
        command(franz, bootstrap, name, BROKERS, scene), capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("all well")
