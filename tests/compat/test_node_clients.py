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
    play(client, bootstrap, name)


@pytest.mark.parametrize("client", ["kafkajs", "platformatic"])
def test_a_client_for_node_copies_in_transactions_and_is_fenced(bootstrap: str, name: str, client: str) -> None:
    play(f"{client}_transactions", bootstrap, name)


def test_platformatics_members_share_the_partitions_of_a_consumer_group(bootstrap: str, name: str) -> None:
    play("platformatic_consumer_groups", bootstrap, name)


def play(script: str, bootstrap: str, name: str) -> None:
    """Run a script of the folder `node` to its last line."""
    node = MODULES / "node" / "bin" / "node"
    done = subprocess.run(
        [str(node), str(HERE / "node" / f"{script}.mjs"), str(MODULES), bootstrap, name, str(BROKERS)],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("all well")
