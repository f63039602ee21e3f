"""Three brokers of an older commit, restarted one by one with the source tree that is here, under load.

    python tests/server/roll_from.py [COMMIT]      (HEAD~1 if none is named)

Nothing may fail, be lost or come twice on the way. A second round of restarts shows that what the new brokers wrote
is read again.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster_processes import OttlaCluster, until
from rolling import Load

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    commit = arguments[0] if arguments else "HEAD~1"
    with tempfile.TemporaryDirectory(prefix="roll-from-") as name:
        count = roll(commit, Path(name), rounds=2, say=partial(print, flush=True))
    print(f"{count} records acknowledged from {commit} on: each is there once, and was read once")
    return 0


def roll(commit: str, folder: Path, *, rounds: int, say: Callable[[str], None] = str) -> int:
    """Roll the brokers under load; return the number of acknowledged records. Fail if one is lost or doubled."""
    older = source_of(commit, folder / "older")
    cluster = OttlaCluster(folder / "data", 3)
    for broker in cluster.brokers.values():
        broker.source = older
    with cluster, Load(cluster) as load:
        for turn in range(1, rounds + 1):
            for number, broker in cluster.brokers.items():
                load.goes_on()
                assert broker.stop() == 0, broker.log()
                broker.source = ROOT / "src"
                broker.start()
                until(load.in_sync)
                say(f"round {turn}: broker {number} is back and everything in sync")
        load.goes_on()
        return load.check()


def source_of(commit: str, folder: Path) -> Path:
    """Unpack the commit's `src`; raise OSError or CalledProcessError if that fails."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
