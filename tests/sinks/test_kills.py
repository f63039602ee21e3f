"""Workers killed in the middle of a sink's work lose nothing and write nothing twice."""

import pytest
from tests.sinks.kills import PARTITIONS, files_scene, lake_scene, run

from ottla.testing import TestBroker


@pytest.mark.parametrize("scene", [files_scene, lake_scene])
def test_every_record_is_there_once_after_kills(scene, at_length, tmp_path):
    (tmp_path / "out").mkdir()
    with TestBroker({"num.partitions": str(PARTITIONS)}) as broker:
        wrong = run(scene(tmp_path / "out"), broker.bootstrap_servers, tmp_path, kills=10 if at_length else 1, seed=7)
    assert wrong == {}
