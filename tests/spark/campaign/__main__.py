"""Runs an exactly-once query from topic to topic under kill -9 of workers, executors, drivers and brokers.

python -m tests.spark.campaign --rows 1000000 --kills 30 --on ottla,kafka
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

from tests.arguments import list_of
from tests.spark.campaign.driver import PLANS
from tests.spark.campaign.run import KINDS, Campaign, Cluster, Ended, Scale

TESTS = Path(__file__).resolve().parents[2]
REPLICATED = {
    "offsets.topic.num.partitions": "2",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
}
OTTLA, KAFKA = "ottla", "kafka"


def main() -> int:
    options = _parser().parse_args()
    sys.path[:0] = [str(TESTS / "compat"), str(TESTS / "server")]
    from apache_kafka import why_not

    if KAFKA in options.on and (reason := why_not()):
        print(f"campaign: no Apache Kafka here: {reason}", file=sys.stderr)
        return 2
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind
    wrong = [name for name in options.on if not one(name, options, seed)]
    return 1 if wrong else 0


def one(name: str, options: argparse.Namespace, seed: int) -> bool:
    """Run a campaign on one kind of cluster; True if it ended without a difference."""
    folder = Path(tempfile.mkdtemp(prefix="ottla-once-"))
    print(f"{name}: {options.rows:,} rows, {options.kills} kills, seed {seed}, in {folder}", flush=True)
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    scale = Scale(options.rows, options.kills, seed, options.plan, options.master)
    with cluster(name) as brokers:
        ended = Campaign(scale, brokers, folder, tell).run()
    print(report(ended))
    if ended.differences:
        print("\n".join(f"DIFFERENCE {each}" for each in ended.differences), f"logs are in {folder}", sep="\n")
        return False
    print(f"{name}: no differences in {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    shutil.rmtree(folder)
    return True


def cluster(name: str) -> AbstractContextManager[Cluster]:
    from three_brokers import ApacheCluster, TemporaryCluster

    return TemporaryCluster(REPLICATED) if name == OTTLA else ApacheCluster(REPLICATED)


def report(ended: Ended) -> str:
    kills = ", ".join(f"{ended.done[kind]} {kind}" for kind in KINDS)
    return (
        f"killed: {kills}; drivers that ended by themselves: {len(ended.by_itself)}\n"
        f"{ended.batches} micro-batches, {ended.committed:,} rows committed, "
        f"{ended.uncommitted:,} of aborted transactions"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.campaign", description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000, metavar="N", help="default 40,000")
    parser.add_argument("--kills", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument("--on", type=list_of((OTTLA, KAFKA)), default=(OTTLA,), metavar="LIST", help="ottla, kafka")
    parser.add_argument("--plan", choices=PLANS, default="by-key", help="rows as they come, or shuffled by key")
    parser.add_argument("--master", default="local-cluster[2,1,1024]", help="Spark's; default two executors")
    parser.add_argument("--seed", type=int, metavar="N", help="of what is killed when; default another every time")
    return parser


if __name__ == "__main__":
    sys.exit(main())
