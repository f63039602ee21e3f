"""A short run of money under faults, on brokers with hosts and disks of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.hosts import can_make_hosts
from tests.faults.mix import run_mix
from tests.once.money import Money
from tests.storage.image_disk import NO_IMAGES, can_mount
from zookeeper_ensemble import zookeeper_jars

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.skipif(not can_mount(), reason=NO_IMAGES)]


def test_the_sum_of_all_accounts_stays_while_a_leader_is_killed_and_another_isolated(tmp_path: Path) -> None:
    libs = zookeeper_jars()
    if libs is None:
        pytest.skip("Apache ZooKeeper's jars are not here")
    if not can_make_hosts():
        pytest.skip("needs to be root, with network namespaces")
    begun: list[Money] = []

    def beside(brokers) -> Money:
        begun.append(Money(brokers.bootstrap, brokers.admin, seed=1))
        return begun[0]

    _, found = run_mix(
        tmp_path, seed=1, minutes=0, kinds=["kill-leader", "isolate"], libs=libs, longest_s=2, beside=beside
    )
    assert not found
    assert begun[0].checks == 3
    assert begun[0].ledger.transfers > 20
