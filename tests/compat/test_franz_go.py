"""franz-go in a group of KIP-848, as a program of the folder `go`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from exchange import BROKERS

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which("go") is None, reason="no `go` on the PATH: install Go 1.26 or newer"),
]


@pytest.fixture(scope="session")
def franz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built once."""
    program = tmp_path_factory.mktemp("go") / "franz"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=HERE / "go", capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return program


def test_franz_gos_members_share_the_partitions_of_a_consumer_group(franz: Path, bootstrap: str, name: str) -> None:
    done = subprocess.run(
        [str(franz), bootstrap, name, str(BROKERS)], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("all well")
