"""Drivers on a standalone cluster, in their own environment: one that runs jobs, and `ottla lake load`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from standalone import PYTHON, bare_environment
from tests.java_tools import QUICK_SPARK
from tests.lake.campaign.places import Place
from tests.lake.campaign.processes import LoaderProcess

JOBS = Path(__file__).with_name("standalone_jobs.py")
SETTINGS = {
    "spark.pyspark.python": PYTHON,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    # Half of the cluster, so that two drivers fit: one core of each worker.
    "spark.cores.max": "2",
    "spark.driver.extraJavaOptions": QUICK_SPARK,
    "spark.executor.extraJavaOptions": QUICK_SPARK,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def conf_arguments() -> list[str]:
    return [argument for pair in SETTINGS.items() for argument in ("--conf", "=".join(pair))]


class Driver:
    """A process with a session on the cluster, in an environment of its own too."""

    def __init__(self, master: str, programs: Path, log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(programs / PYTHON), str(JOBS), "--master", master, *conf_arguments()],
                env=bare_environment([programs]),
                cwd=log.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.answer() == "ready"

    def run(self, job: str, **arguments: object) -> Any:
        self.say({"job": job, **arguments})
        return self.answer()

    def say(self, what: object) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-3000:]
        return json.loads(line)

    def stop(self) -> None:
        self._process.communicate(timeout=60)


class Loader(LoaderProcess):
    """`ottla lake load` on the cluster, from the wheel."""

    def __init__(self, arguments: Sequence[str], master: str, programs: Path, place: Place, log: Path) -> None:
        self.log = log
        command = [str(programs / PYTHON), "-m", "ottla", "lake", "load", *arguments]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, "--master", master, *conf_arguments()],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, cwd=log.parent,
                env={**bare_environment([programs]), **place.environment(), "OTTLA_LAKE_LEASE_SECONDS": "4"},
            )  # fmt: skip
