"""Exactly once on executors in their own processes, with speculation, and with killed workers and executors."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from committed import committed_rows, settled
from standalone import SPARK_HOME, listening
from tests.java_tools import QUICK_SPARK
from tests.ports import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOBS = Path(__file__).with_name("once_cluster_jobs.py")
ENVIRONMENT = {
    **os.environ,
    "SPARK_HOME": str(SPARK_HOME),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_DAEMON_JAVA_OPTS": QUICK_SPARK,
}


@pytest.fixture
def master(tmp_path, eventually):
    """A standalone cluster of two hosts from Spark's view: Spark runs two attempts of a task on different hosts."""
    port = free_port()
    log = tmp_path / "master.log"
    with contextlib.ExitStack() as stack:

        def launch(role, host, *arguments):
            command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", host]
            command += ["--webui-port", str(free_port()), *arguments]
            with log.open("ab") as out:
                process = subprocess.Popen(command, stdout=out, stderr=out, env=ENVIRONMENT)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)

        launch("master.Master", "127.0.0.1", "--port", str(port))
        eventually(lambda: listening(port))
        for host in ("127.0.0.1", "127.0.0.2"):
            resources = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / host)]
            launch("worker.Worker", host, *resources, f"spark://127.0.0.1:{port}")
        eventually(lambda: log.read_text().count("Registering worker") == 2)
        yield f"spark://127.0.0.1:{port}"


def test_tasks_that_are_overtaken_or_die_write_their_rows_once(master, bootstrap, topics, eventually, tmp_path):
    source, target = topics.new(2), topics.new(2)
    for partition in (0, 1):
        topics.count(source, partition, 300, start=1000 * partition)
    command = [sys.executable, str(JOBS), master, bootstrap, source, target, str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=450, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    attempts = json.loads(done.stdout)["attempts"]
    for batch in range(3):
        assert f"attempt-{batch}-0-1" in attempts, "the task was not tried a second time"
    settled(topics.cluster, target, eventually)
    found = committed_rows(topics.cluster, bootstrap, target)
    assert sorted(int(value) for _, _, value in found) == [*range(300), *range(1000, 1300)]
    for partition in (0, 1):
        numbers = [int(value) for place, _, value in found if place == partition]
        for mine in ([each for each in numbers if each < 1000], [each for each in numbers if each >= 1000]):
            assert mine == sorted(mine), "rows of one source partition lost their order"
