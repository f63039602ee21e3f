"""Measures the memory of a load: resident megabytes of Spark's JVM and Python workers, from start to end.

`python -m bench.lake_memory [--gigabytes N] [--partitions N] [--skewed] [--cores N] [--format table|json]` fills a
topic of our broker with N gigabytes (214 bytes a record), loads it by `ottla lake load` into local Parquet, and prints
peaks and how the last third of the rounds compares with the first. `--skewed` puts nine tenths into one partition. On a
local master one JVM is driver and executor.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from bench.brokers import ROOT
from bench.lake_rig import RECORD_BYTES, Look, Watch, fill, rounds_told, running_broker, watched_load

GROWN = 1.1
"""A load is said to grow if the ratio of its last third to its first is above this."""


def main() -> int:
    """Measure and print; return 1 if the load failed or grew."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="memory-", dir=options.folder))
    try:
        with running_broker(folder) as address:
            records = fill(address, "big", shares(options.gigabytes, options.partitions, skewed=options.skewed))
            lake = folder / "lake"
            arguments = ["big", "--to", str(lake), "-b", address, "--max-offsets", str(options.max_offsets)]
            watch = watched_load([*arguments, "--master", f"local[{options.cores}]"], folder / "load.log")
            size = sum(path.stat().st_size for path in lake.rglob("*.parquet"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if watch.status or "adds up" not in watch.printed:
        print(watch.printed[-2000:], file=sys.stderr)
        return 1
    facts = {
        "records": records,
        "topic_gigabytes": round(records * RECORD_BYTES / 1e9, 2),
        "lake_gigabytes": round(size / 1e9, 2),
        "partitions": options.partitions,
        "skewed": options.skewed,
        "cores": options.cores,
        "rounds": rounds_told(watch.printed),
        **figures(watch),
    }
    if options.format == "json":
        print(json.dumps({**facts, "looks": [asdict(look) for look in watch.looks]}))
    else:
        print(table(facts))
    return 1 if facts["grown"] > GROWN else 0


def shares(gigabytes: float, partitions: int, *, skewed: bool) -> list[int]:
    """Records of each partition."""
    records = int(gigabytes * 1e9 / RECORD_BYTES)
    if not skewed or partitions == 1:
        return [records // partitions] * partitions
    rest = records // 10 // (partitions - 1)
    return [records - rest * (partitions - 1), *[rest] * (partitions - 1)]


def figures(watch: Watch) -> dict[str, float]:
    """Peaks in 10^6 bytes, and medians of all processes in the first and last third of the rounds after the first."""
    looks, settled = watch.looks, after_the_first_round(watch.looks)
    third = len(settled) // 3
    first, last = (median(look.all for look in part) for part in (settled[:third], settled[-third:]))
    return {
        "seconds": round(watch.seconds, 1),
        "peak_all_mb": round(max(look.all for look in looks)),
        "peak_java_mb": round(max(look.java for look in looks)),
        "peak_python_mb": round(max(look.python for look in looks)),
        "peak_one_python_mb": round(max(look.largest for look in looks)),
        "first_third_mb": round(first),
        "last_third_mb": round(last),
        "grown": round(last / first, 3),
    }


def after_the_first_round(looks: list[Look]) -> list[Look]:
    """Samples from the second round on; in the first, Java and workers start and take what every round needs."""
    last = max((look.rounds for look in looks), default=0)
    settled = [look for look in looks if 0 < look.rounds < last]
    if len(settled) < 3:
        raise RuntimeError("too few rounds were seen: give more --gigabytes, or fewer --max-offsets")
    return settled


def table(facts: dict[str, object]) -> str:
    """The facts as a table, aligned for a terminal."""
    width = max(map(len, facts))
    return "\n".join(f"{name.replace('_', ' '):{width}}  {value:>14,}" for name, value in facts.items())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--skewed", action="store_true", help="nine tenths are in one partition")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--max-offsets", type=int, default=20_000_000, help="of one round, as for the loader")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench", help="where topic and lake are put")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
