"""Executors in processes of their own: Spark's local cluster. test_standalone.py has one of several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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
