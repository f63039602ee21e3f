"""Runs ordinary worlds over the source tree that PYTHONPATH names.

`run_ordinary.py BROKERS FIRST COUNT [all]` prints a line for each seed that shows an anomaly, with its kinds, and stops
at the first one unless `all` is given.
"""

from __future__ import annotations

import gc
import logging
import os
import sys

import ottla
from ottla.sim.world import run_seed


def main(brokers: int, first: int, count: int, *, through_all: bool) -> None:
    assert ottla.__file__ is not None
    assert ottla.__file__.startswith(os.environ["PYTHONPATH"]), ottla.__file__
    logging.getLogger("ottla").setLevel(logging.CRITICAL + 1)
    for seed in range(first, first + count):
        anomalies = run_seed(seed, brokers=brokers).anomalies
        gc.collect()
        if anomalies:
            print(seed, *sorted({anomaly.kind for anomaly in anomalies}), flush=True)
            if not through_all:
                return


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), through_all="all" in sys.argv[4:])
