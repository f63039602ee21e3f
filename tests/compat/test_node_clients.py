"""kafkajs and @platformatic/kafka in Node 22, from .cache/node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from exchange import BROKERS

pytestmark = pytest.mark.compat
HERE = Path(__file__).parent
MODULES = Path(os.environ.get("OTTLA_NODE_MODULES", str(HERE.parents[1] / ".cache" / "node" / "node_modules")))


@pytest.mark.parametrize("client", ["kafkajs", "platformatic"])
def test_a_client_for_node_does_its_whole_round(bootstrap: str, name: str, client: str) -> None:
    node = MODULES / "node" / "bin" / "node"
    done = subprocess.run(
        [str(node), str(HERE / "node" / f"{client}.mjs"), str(MODULES), bootstrap, name, str(BROKERS)],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("all well")
