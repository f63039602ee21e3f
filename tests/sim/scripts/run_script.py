"""Plays one script: `run_script.py NAME [--without-its-mend] [--trace]`. Prints the anomalies."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.sim.edited import run_edited
from tests.sim.scripts.player import HERE, Script, play, read


def main(name: str, *, trace: bool) -> None:
    logging.getLogger("ottla").setLevel(logging.CRITICAL + 1)
    result = play(read(HERE / f"{name}.toml"), print if trace else None)
    for anomaly in result.anomalies:
        print(anomaly.kind, anomaly.what)


def kinds_without_mend(script: Script) -> set[str]:
    """Kinds of the anomalies that show up without the fix, in a process that lacks it."""
    return run_edited(script.without, kinds_of, script.name)


def kinds_of(name: str) -> set[str]:
    return {anomaly.kind for anomaly in play(read(HERE / f"{name}.toml")).anomalies}


if __name__ == "__main__":
    if "--without-its-mend" in sys.argv:
        print(*sorted(kinds_without_mend(read(HERE / f"{sys.argv[1]}.toml"))))
    else:
        main(sys.argv[1], trace="--trace" in sys.argv)
