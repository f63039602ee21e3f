"""franz-go's members of consumer groups (KIP-848)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from exchange import BROKERS, until
from franz_go import command, compiled, coordinator, go_on_through

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


def test_franz_gos_members_go_on_at_other_coordinators(franz: Path, bootstrap: str, name: str) -> None:
    """Three brokers: `tools/compat.py` moves the coordinator and stops and kills brokers meanwhile. One: it stays."""

    def another() -> None:
        before = coordinator(bootstrap, name)
        until(lambda: BROKERS == 1 or coordinator(bootstrap, name) != before, what="another coordinator", within_s=60)

    go_on_through([another] * 3, franz, bootstrap, name, BROKERS)


def play(franz: Path, bootstrap: str, name: str, scene: str) -> None:
    """Play a scene to its last line."""
    done = subprocess.run(
        command(franz, bootstrap, name, BROKERS, scene), capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("all well")
