"""`make once`: exactly once between topics, under kill -9 and the mix of faults.

ARGS="copies --records 100000 --kills 60": copiers in transactions on three brokers that are killed, one by one.
ARGS="money --minutes 30": money moved between accounts under the mix of faults of `make faults`.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("coordination", "server")]

from cluster_processes import OttlaCluster  # noqa: E402
from tests.faults.mix import run_mix  # noqa: E402
from tests.faults.nemesis import FAULTS, possible  # noqa: E402
from tests.once.copies import OPTIONS, Copies, Ended, Scale  # noqa: E402
from tests.once.money import Money  # noqa: E402
from zookeeper_ensemble import zookeeper_jars  # noqa: E402

_SHOWN = 20


def main() -> int:
    options = _parser().parse_args()
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no broker is left behind
    folder = Path(tempfile.mkdtemp(prefix="ottla-once-", dir=options.folder))
    print(f"seed {seed}, in {folder}", flush=True)
    found = copies(options, folder, seed) if options.kind == "copies" else money(options, folder, seed)
    for line in found[:_SHOWN]:
        print(f"DIFFERENCE {line}", file=sys.stderr)
    print(f"{len(found)} differences" if found else "no differences")
    if not found:
        shutil.rmtree(folder)
    return 1 if found else 0


def copies(options: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    scale = Scale(options.records, options.kills, seed, options.copiers)
    brokers = [word for option in OPTIONS for word in ("--set", option)]
    with OttlaCluster(folder, 3, *brokers) as cluster:
        ended = Copies(cluster, scale, lambda line: print(line, flush=True)).run()
    print(report(scale, ended))
    return ended.differences


def money(options: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    libs = zookeeper_jars()
    assert libs is not None, "Apache ZooKeeper's jars are not here"
    witness, found = run_mix(
        folder, seed, options.minutes, options.faults or possible(), libs,
        beside=lambda brokers: Money(brokers.bootstrap, brokers.admin, seed),
    )  # fmt: skip
    print(f"{witness.acknowledged:,} other records acknowledged")
    return [f"{each.kind}: {each.what}" for each in found]


def report(scale: Scale, ended: Ended) -> str:
    counts = ended.counts
    return (
        f"{scale.records:,} records copied by {scale.copiers} copiers in {counts.committed} transactions, "
        f"{counts.aborted} aborted with {ended.aborted_records:,} records, {counts.begun_anew} clients made anew, "
        f"{counts.abandoned} abandoned; "
        f"{ended.kills} kills, {ended.kills_in_transactions} while transactions were open; "
        f"{ended.seconds / 60:.1f} minutes"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make once", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="of what is drawn (default: a new one)")
    parser.add_argument("--folder", type=Path, help="where to work (default: the system's folder for temporary files)")
    kinds = parser.add_subparsers(dest="kind", required=True)
    copying = kinds.add_parser("copies", help="copiers while brokers are killed")
    copying.add_argument("--records", type=int, default=100_000)
    copying.add_argument("--kills", type=int, default=60)
    copying.add_argument("--copiers", type=int, default=3)
    moving = kinds.add_parser("money", help="money moved under the mix of faults; needs root, loop devices, ZooKeeper")
    moving.add_argument("--minutes", type=float, default=30)
    moving.add_argument("--faults", nargs="+", choices=list(FAULTS), help="only these kinds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
