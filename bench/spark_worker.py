"""The process of pyspark 4.2 that runs jobs, seen from the race; sessions and jobs are in spark_jobs.py."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from bench.brokers import ROOT

FORMATS = {"ottla": "ottla", "spark-kafka": "kafka"}
"""Contestant -> the name of its data source."""
PROGRAMS = ROOT / ".venv-spark42" / "bin"
JARS = {"tuned": ("spark-kafka",), "untuned": ("spark-kafka",), "with-delta": ("spark-kafka", "spark-delta")}
"""The sets of tools/jars.py that a kind of session needs."""


class Worker:
    """One session, from its start to `stop`."""

    def __init__(
        self, bootstrap: str, log: IO[bytes], kind: str = "tuned", environment: Mapping[str, str] | None = None
    ) -> None:
        command = [str(PROGRAMS / "python"), "-m", "bench.spark_jobs", bootstrap, kind, *map(jars, JARS[kind])]
        path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])  # as in an active environment
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, "PATH": path, **(environment or {})},
        )  # fmt: skip
        atexit.register(self.stop)
        self._answer()

    def run(self, job: str, side: str, **arguments: object) -> float:
        """The seconds that a job took."""
        assert self.process.stdin is not None
        print(json.dumps({"job": job, "connector": FORMATS[side], **arguments}), file=self.process.stdin, flush=True)
        return float(self._answer()["seconds"])

    def stop(self) -> None:
        """End the session."""
        if self.process.poll() is None:
            self.process.communicate(timeout=60)

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the Spark session ended; see spark.log in the race's folder")
        answer: dict[str, float] = json.loads(line)
        if "fault" in answer:
            raise RuntimeError(str(answer["fault"]))
        return answer


def jars(name: str) -> str:
    """The folder of a set of jars, as `make bench` fetched it."""
    given = os.environ.get(f"OTTLA_{name.upper().replace('-', '_')}_JARS")
    folder = Path(given) if given else ROOT / ".cache" / name / "libs"
    if not any(folder.glob("*.jar")):
        raise RuntimeError(f"the jars of {name} are not here: run `tools/jars.py {name}`")
    return str(folder)
