"""Source, sink and lake keep their promises in a user's own session without any of our settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark_rig import Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOBS = Path(__file__).with_name("untuned_jobs.py")
ROWS, LATE = 3000, 5


def test_an_untuned_session_writes_reads_streams_and_loads_each_row_once(topics: Topics, tmp_path: Path) -> None:
    """Spark finds the source by itself; then in a second session that registers it."""
    topic = topics.new(3)
    topics.admin.create_topic(f"{topic}-copy", 2)
    topics.admin.create_topic(f"{topic}-registered", 3)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # an active environment
    result = subprocess.run(
        [sys.executable, str(JOBS), topics.bootstrap, topic, str(tmp_path)],
        env={**kept, "PATH": programs, "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"]},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    seen = json.loads(result.stdout)
    batches, rows = seen.pop("batches"), seen.pop("rows")
    assert seen == {
        "our settings": [],
        "schema": (
            "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
            "timestampType:int,headers:array<struct<key:string,value:binary>>>"
        ),
        "lake": [ROWS + LATE, True],
        "registered": ROWS,
    }
    assert len({(partition, offset) for partition, offset, *_ in rows}) == ROWS + LATE
    written = [[str(at), value(at), [] if at % 2 else [["h", str(at)]]] for at in range(ROWS)]
    assert sorted(row[2:] for row in rows) == sorted(written + [["7000", "late", []]] * LATE)
    assert [sum(each) for each in batches] == [ROWS, LATE]
    assert len(batches[0]) > 1
    copied = sorted((record.value or b"").decode() for record in topics.read(f"{topic}-copy"))
    assert copied == sorted(["late"] * LATE + [value(at) for at in range(ROWS)])


def value(at: int) -> str:
    return f"value-{at}" if at % 7 else ""
