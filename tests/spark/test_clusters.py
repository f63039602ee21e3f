"""Executors in processes of their own: Spark's local cluster, and a standalone master with two workers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(500)]

JOBS = Path(__file__).with_name("cluster_jobs.py")
SPARK_HOME = Path(pyspark.__file__).parent


def run(master, bootstrap, topic, folder):
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(JOBS), master, bootstrap, topic, str(folder)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout)


EXPECTED = {"rows": 4000, "copied": 4000, "batches": 3, "lake": 4000, "adds up": True, "executors": 2}


def test_a_local_cluster_runs_the_whole_pipeline(bootstrap, topics, tmp_path):
    assert run("local-cluster[2,1,1024]", bootstrap, topics.new(4), tmp_path) == EXPECTED


def test_a_standalone_master_with_two_workers_runs_the_whole_pipeline(bootstrap, topics, tmp_path, eventually):
    with standalone(tmp_path, eventually) as master:
        assert run(master, bootstrap, topics.new(4), tmp_path) == EXPECTED


@contextlib.contextmanager
def standalone(folder, eventually):
    """A master and two one-core workers; yields the master's URL."""
    port, logs = free_port(), []
    with contextlib.ExitStack() as processes:

        def start(role, *arguments):
            log = folder / f"{role}-{len(logs)}.log"
            logs.append(log)
            command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
            environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", *arguments],
                env=environment,
                stdout=processes.enter_context(log.open("wb")),
                stderr=subprocess.STDOUT,
            )
            processes.callback(process.wait, 30)
            processes.callback(process.terminate)

        start("master.Master", "--port", str(port), "--webui-port", str(free_port()))
        eventually(lambda: listening(port))
        for _ in range(2):
            options = [
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                str(free_port()),
                "--work-dir",
                str(folder / "work"),
            ]
            start("worker.Worker", *options, f"spark://127.0.0.1:{port}")
        eventually(lambda: logs[0].read_text().count("Registering worker") == 2)
        yield f"spark://127.0.0.1:{port}"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
