"""`make lake-campaign`: loads topics into lakes on every store under kill -9; ARGS="--rows 5000000 --kills 40"."""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.arguments import list_of
from tests.lake.campaign.places import PLACES
from tests.lake.campaign.run import VALUES, Campaign, Ended, Scale
from tests.lake.store_rigs import hdfs_jars

from ottla.lake.reports.counts import aligned


def main() -> int:
    options = _parser().parse_args()
    if "parquet-hdfs" in options.places and hdfs_jars() is None:
        print("campaign: no HDFS here, it needs Java and Hadoop's jars: leaving parquet-hdfs out", file=sys.stderr)
        options.places = tuple(name for name in options.places if name != "parquet-hdfs")
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="ottla-campaign-"))
    scale = Scale(options.rows, options.kills, seed, options.places, options.values, options.minutes)
    print(f"seed {seed}, in {folder}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    ended = Campaign(scale, folder, tell).run()
    print("\n".join(table(ended)))
    for difference in ended.differences:
        print(f"DIFFERENCE {difference}")
    if ended.differences:
        print(f"{len(ended.differences)} differences; logs and lakes are in {folder}")
        return 1
    print(f"no differences in {(time.monotonic() - began) / 60:.1f} minutes")
    shutil.rmtree(folder)
    return 0


def table(ended: Ended) -> list[str]:
    """A row per lake."""
    kinds = ("driver", "everything", "worker", "broker", "store")
    rows = [("place", "values", "rows", "dead", *kinds, "ended by itself", "looks", "differences")]
    for each in ended.outcomes:
        counts = [each.verdict.rows, each.verdict.dead, *(each.siege.done[kind] for kind in kinds)]
        counts += [len(each.siege.ended), each.looks, len(each.differences)]
        rows.append((each.place, each.values, *(f"{count:,}" for count in counts)))
    return aligned(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make lake-campaign", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000, metavar="N", help="over eight topics; default 400,000")
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="over all places; default 20")
    parser.add_argument("--seed", type=int, metavar="N", help="of what is killed when; default another every time")
    parser.add_argument("--places", type=list_of(PLACES), default=tuple(PLACES), metavar="LIST", help=", ".join(PLACES))
    parser.add_argument("--values", type=list_of(VALUES), default=VALUES, metavar="LIST", help=",".join(VALUES))
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), metavar="N", help="after that nothing is killed any more"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
