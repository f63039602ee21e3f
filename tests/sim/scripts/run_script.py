"""Plays one script: `run_script.py NAME [--without-its-mend] [--trace]`. Prints the anomalies."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.sim.scripts.player import HERE, Script, play, read
from tests.sim.taken_out import copy_without


def main(name: str, *, trace: bool) -> None:
    logging.getLogger("ottla").setLevel(logging.CRITICAL + 1)
    result = play(read(HERE / f"{name}.toml"), print if trace else None)
    for anomaly in result.anomalies:
        print(anomaly.kind, anomaly.what)


def kinds_without_mend(script: Script, place: Path) -> set[str]:
    """Kinds of the anomalies that show up in a copy of the source without the fix."""
    tree = copy_without(script.without, place)
    command = [sys.executable, __file__, script.name]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return {line.split(" ", 1)[0] for line in done.stdout.splitlines()}


if __name__ == "__main__":
    if "--without-its-mend" in sys.argv:
        with tempfile.TemporaryDirectory() as copied:
            print(*sorted(kinds_without_mend(read(HERE / f"{sys.argv[1]}.toml"), Path(copied))))
    else:
        main(sys.argv[1], trace="--trace" in sys.argv)
