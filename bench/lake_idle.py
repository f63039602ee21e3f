"""Measures a round in which nothing is new, for a loader of many topics.

`python -m bench.lake_idle [--topics N] [--rounds N] [--format table|json]` makes topics of one partition with a few
records, loads them all, and then lets the same loader look again and again. A new loader's start is timed as well.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.brokers import ROOT
from bench.lake_rig import running_broker
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.lake.notes.plans import LoadPlan
from ottla.lake.notes.state import LakeState
from ottla.lake.rounds.loader import Loader
from ottla.lake.rounds.settings import LoadSettings, load_settings
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.rows.workers import Here, Workers
from ottla.stores import open_store

WANTED_SECONDS = 10.0
RECORDS = 3


def main() -> int:
    """Measure and print; return 1 if a round took longer than wanted."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="idle-", dir=options.folder))
    try:
        with running_broker(folder) as address:
            _make_topics(address, options.topics)
            settings = load_settings((), folder / "lake", {"pattern": "idle-.*", "bootstrap": address})
            facts = _measured(settings, options.topics, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.format == "json":
        print(json.dumps(facts))
    else:
        width = max(map(len, facts))
        print("\n".join(f"{name.replace('_', ' '):{width}}  {value:>10,}" for name, value in facts.items()))
    return 1 if facts["slowest_idle_round_seconds"] > WANTED_SECONDS else 0


def _make_topics(address: str, topics: int) -> None:
    admin = Admin(address)
    batch = build_batch([Record(0, 1_700_000_000_000 + at, b"key", b"value") for at in range(RECORDS)])
    with Cluster(address) as cluster:
        for number in range(topics):
            admin.create_topic(f"idle-{number:04d}", 1)
            cluster.produce(f"idle-{number:04d}", 0, batch)


def _measured(settings: LoadSettings, topics: int, rounds: int) -> dict[str, float]:
    with LakeState(open_store(settings.url)) as state:
        loader = Loader(settings, state, lambda _: Here(), lambda _: None)
        first = _timed(loader.catch_up)
        loaded = loader.loaded.rows
        if loaded != topics * RECORDS or not loader.loaded.adds_up:
            raise RuntimeError(f"{loaded} rows of {topics * RECORDS} were loaded")
        idle = [_timed(loader.catch_up) for _ in range(rounds)]
        loader.close()
    started = _timed(lambda: _start_again(settings))
    return {
        "topics": topics,
        "first_load_seconds": round(first, 2),
        "idle_round_seconds": round(median(idle), 3),
        "slowest_idle_round_seconds": round(max(idle), 3),
        "start_with_nothing_new_seconds": round(started, 2),
    }


def _start_again(settings: LoadSettings) -> None:
    """Start a new loader, which finds nothing to do and asks for no workers."""

    def none(plan: LoadPlan) -> Workers:
        raise AssertionError(f"nothing is new, yet round {plan.number} was carried out")

    with LakeState(open_store(settings.url)) as state:
        loader = Loader(settings, state, none, lambda _: None)
        loader.catch_up()
        loader.close()


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench", help="where topics and lake are put")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
