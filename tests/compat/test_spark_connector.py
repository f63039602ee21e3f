"""Spark's own Kafka connector (spark-sql-kafka-0-10 4.2.0 on pyspark 4.2), unchanged, batch and stream."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / ".venv-spark42" / "bin" / "python"
JARS = ROOT / ".cache" / "spark-kafka" / "libs"

EVERYTHING = {"rows": 12_000, "keys": 12_000}


@pytest.mark.compat
@pytest.mark.slow
def test_sparks_own_connector_reads_and_writes_and_sees_the_rows_that_ours_sees(
    bootstrap: str, name: str, tmp_path: Path
) -> None:
    assert PYTHON.exists() and JARS.exists(), "set up by: tools/setup.sh spark42 spark-jars"
    jobs = Path(__file__).with_name("spark_connector_jobs.py")
    command = [str(PYTHON), str(jobs), bootstrap, str(JARS), name, str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert json.loads(result.stdout) == {
        "batch": EVERYTHING,
        "headers": 12_000,
        "pattern": 12_000,
        "since": 12_000,
        "range": 100,
        **dict.fromkeys(("gzip", "snappy", "lz4", "zstd"), 2000),
        "stream": [12_000, 0],
        "copied": EVERYTHING,
        "schema": True,
        "different": 0,
        "ours": 500,
    }
