"""Measures small loads of a lake, whole processes, here and on Spark: seconds, and seconds of processors.

`python -m bench.small_loads [--records N,N] [--rounds N] [--on local,spark] [--json]` starts a broker, fills a topic of
two partitions with JSON for each number of records, and loads it into a new lake of Parquet in each round.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.brokers import ROOT
from bench.lake_rig import running_broker
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.records.builder import build_batch
from ottla.records.reader import Record

WANTED_SECONDS = {1_000: 1.5}
"""On a quiet machine, without Spark."""
PARTITIONS = 2
PR_SET_CHILD_SUBREAPER = 36
BATCH = 2_000


class Taken(NamedTuple):
    """The time of a load; that of processors is of the load and of all processes that it started, Spark's too."""

    seconds: float
    cpu_seconds: float


def main() -> int:
    """Measure and print; return 1 where a load took longer than wanted."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="small-", dir=options.folder))
    slow = False
    try:
        with running_broker(folder) as address:
            for records in options.records:
                fill(address, f"small-{records}", records)
            for on in options.on:
                for records in options.records:
                    runs = [load(address, records, on, folder / "lake") for _ in range(options.rounds)]
                    taken = Taken(median(run.seconds for run in runs), median(run.cpu_seconds for run in runs))
                    slow |= on == "local" and taken.seconds > WANTED_SECONDS.get(records, float("inf"))
                    print(_line(on, records, taken, as_json=options.json), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if slow else 0


def fill(address: str, topic: str, records: int) -> None:
    """A topic with so many JSON values of about a hundred bytes."""
    Admin(address).create_topic(topic, PARTITIONS)
    now_ms = time.time_ns() // 1_000_000
    with Cluster(address) as cluster:
        for partition in range(PARTITIONS):
            share = records // PARTITIONS
            for start in range(0, share, BATCH):
                values = [
                    json.dumps({"id": at, "name": f"name {at}", "amount": at * 0.5, "note": "x" * 50}).encode()
                    for at in range(start, min(start + BATCH, share))
                ]
                cluster.produce(topic, partition, build_batch([Record(0, now_ms, b"key", value) for value in values]))


def load(address: str, records: int, on: str, place: Path) -> Taken:
    """Load the topic into a new lake by the command; RuntimeError where rows are missing."""
    shutil.rmtree(place, ignore_errors=True)
    command = ["lake", "load", f"small-{records}", "--to", str(place), "-b", address, "--json", "--on", on]
    _adopt_orphans()
    others = _children()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *command], capture_output=True, text=True, cwd=ROOT, env=os.environ, check=False
    )
    seconds = time.monotonic() - began
    for orphan in _children() - others:
        os.waitpid(orphan, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or f"audit: {records:,} records = {records:,} in files" not in done.stdout:
        raise RuntimeError(f"the load of {records:,} records failed: {done.stdout}{done.stderr}")
    return Taken(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _adopt_orphans() -> None:
    """Become the parent of what a load leaves behind: Spark's Java process ends after the program that started it."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) was refused")


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def _line(on: str, records: int, taken: Taken, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"on": on, "records": records, **{k: round(v, 2) for k, v in taken._asdict().items()}})
    return f"{on:6} {records:>9,} records  {taken.seconds:6.2f} s  {taken.cpu_seconds:6.2f} s of processors"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--records", type=lambda text: [int(each) for each in text.split(",")], default=[1_000, 100_000]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--on", type=lambda text: text.split(","), default=["local", "spark"])
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench", help="where topics and lake are put")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
