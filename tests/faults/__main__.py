"""`make faults`: real brokers, real clients and real faults; ARGS="--power-cuts 50" or ARGS="--minutes 60"."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("coordination",)]

from tests.faults.campaign import folder_of  # noqa: E402
from tests.faults.hosts import can_make_hosts  # noqa: E402
from tests.faults.mix import run_mix  # noqa: E402
from tests.faults.nemesis import FAULTS, possible  # noqa: E402
from tests.faults.power_cuts import run_power_cuts  # noqa: E402
from tests.faults.witness import from_file  # noqa: E402
from tests.storage.image_disk import can_mount  # noqa: E402
from zookeeper_ensemble import zookeeper_jars  # noqa: E402

from ottla.sim.checkers.history import Anomaly  # noqa: E402
from ottla.sim.checkers.verdict import check  # noqa: E402


def main() -> int:
    options = _parser().parse_args()
    if options.judge is not None:
        return _say(check(from_file(options.judge)), options.judge)
    if why := _hindered(options):
        print(f"faults: {why}", file=sys.stderr)
        return 2
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    folder = folder_of(seed, options.folder)
    print(f"seed {seed}, in {folder}", flush=True)
    began = time.monotonic()
    if options.minutes is None:
        witness, found = run_power_cuts(
            folder, seed, options.power_cuts, {"write.caching": "true"} if options.lossy else {}, tls=options.tls
        )
    else:
        libs = zookeeper_jars()
        assert libs is not None
        witness, found = run_mix(folder, seed, options.minutes, options.faults or possible(), libs, tls=options.tls)
    print(f"{witness.acknowledged:,} records acknowledged in {(time.monotonic() - began) / 60:.1f} minutes")
    if witness.older_copies:
        print(f"{len(witness.older_copies)} records twice, which librdkafka sent anew in another producer epoch")
    status = _say(found, folder / "history.jsonl")
    if found:
        print(f"seed {seed}; history, logs and disks are in {folder}", file=sys.stderr)
    elif not options.keep:
        shutil.rmtree(folder)
    return status


def _hindered(options: argparse.Namespace) -> str:
    """The reason why the campaign cannot begin; empty if it can."""
    if (options.power_cuts is None) == (options.minutes is None):
        return "give --power-cuts or --minutes"
    if not can_mount():
        return "needs to be root on Linux, with loop devices and the right to mount"
    if options.minutes is not None and not can_make_hosts():
        return "needs network namespaces, and the commands ip and nsenter"
    if options.minutes is not None and zookeeper_jars() is None:
        return "needs ZooKeeper's jars and Java; `python tools/jars.py zookeeper` fetches them"
    return ""


def _say(found: list[Anomaly], history: Path) -> int:
    for anomaly in found:
        print(f"ANOMALY {anomaly.kind}: {anomaly.what}", file=sys.stderr)
    print(f"{len(found)} anomalies in {history}" if found else "no anomalies")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--power-cuts", type=int, metavar="N", help="rounds of power cuts of the whole cluster")
    parser.add_argument("--minutes", type=float, help="how long to mix all kinds of faults")
    parser.add_argument(
        "--lossy", action="store_true", help="power cuts of a topic that does not wait for disks: must be found out"
    )
    parser.add_argument("--tls", action="store_true", help="brokers and clients speak TLS alone, with certificates")
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), help="only these kinds, with --minutes")
    parser.add_argument("--seed", type=int, help="of what is drawn (default: a new one)")
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")), help="where to work")
    parser.add_argument("--keep", action="store_true", help="keep history, logs and disks of a green run too")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge a history that was kept, and do nothing else")
    return parser


if __name__ == "__main__":
    sys.exit(main())
