"""Decides which worker runs which test, in the place of pytest-xdist's `--dist loadfile`.

A worker takes whole files, since a file's tests share a broker; long tests that share nothing are taken one by one.
Files that need a Spark session go to one half of the workers as long as there are others: each worker that takes one
starts a Java process, which then serves all Spark files of that worker.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

LONGEST = (
    "tests/lake/test_loader_killed.py",
    "tests/damage/test_damage.py",
    "tests/lake/tables/test_races.py",
    "tests/sim/test_ablation.py",
    "tests/lake/stores/test_store_conformance.py",
    "tests/server/test_cluster_on_zookeeper.py",
    "tests/server/test_cluster_of_processes.py",
    "tests/server/test_cluster_up.py",
    "tests/sim/test_command.py",
    "tests/sim/test_ordinary.py",
    "tests/sim/test_world.py",
)
"""Files that take a minute or more, which a run begins with."""

APART = (
    "tests/damage/test_damage.py",
    "tests/lake/tables/test_races.py",
    "tests/server/test_cluster_of_processes.py",
    "tests/server/test_cluster_up.py",
    "tests/sim/test_world.py",
)
"""Files of long tests that share no broker and no session: any worker may take any of their tests."""

_NEEDS_SPARK = re.compile(r"mark\.spark\b|[(,] ?spark[,):]")


@cache
def needs_spark(file: Path) -> bool:
    """True for a file with a test that is marked `spark` or takes the session."""
    return _NEEDS_SPARK.search(file.read_text()) is not None


class Workers(LoadFileScheduling):
    """Gives Spark files to the first half of the workers, and other files to the others, as long as there are both."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file in APART else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        for_spark = self.nodes.index(node) < max(1, len(self.nodes) // 2)
        suited = (unit for unit in self.workqueue if needs_spark(self._file(unit)) == for_spark)
        self.workqueue.move_to_end(next(suited, next(iter(self.workqueue))), last=False)
        super()._assign_work_unit(node)

    def _file(self, unit: str) -> Path:
        return self.config.rootpath / unit.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Workers | None:
    """Use these workers for `--dist loadfile`, which `make test` asks for."""
    return Workers(config, log) if config.getoption("dist") == "loadfile" else None  # type: ignore[arg-type]
