"""A broker that is given another broker's directory is told so, and not to take an older store."""

from __future__ import annotations

import pytest
from sim_cluster import SimCluster

from ottla.storage.directory.ownership import DirectoryRefused


def test_the_directory_of_another_broker_is_called_that_and_no_older_store():
    cluster = SimCluster(2)
    copy = cluster.machines[2].disk.copied("/data")  # it has seen a later registration than the one of broker 1
    for number in (1, 2):
        cluster.kill(number)
    cluster.machines[1].disk.put_back("/data", copy)
    with pytest.raises(DirectoryRefused, match=r"says node\.id 2, and this broker has 1\. Give it its own directory"):
        cluster.start(1)
