"""Plays one script on the source tree that PYTHONPATH names: `run_script.py NAME [--trace]`. Prints the anomalies."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from player import HERE, play, read


def main(name: str, *, trace: bool) -> None:
    logging.getLogger("ottla").setLevel(logging.CRITICAL + 1)
    result = play(read(HERE / f"{name}.toml"), (lambda now_us, what: print(now_us, what)) if trace else None)
    for anomaly in result.anomalies:
        print(anomaly.kind, anomaly.what)


if __name__ == "__main__":
    main(sys.argv[1], trace="--trace" in sys.argv[2:])
