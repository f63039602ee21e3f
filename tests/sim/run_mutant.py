"""Runs worlds of the source tree that PYTHONPATH names until one shows an anomaly.

`run_mutant.py BROKERS FIRST COUNT FAULT...`

Prints the seed and the kinds of its anomalies, or nothing where all seeds were green.
"""

from __future__ import annotations

import logging
import os
import sys

import ottla
from ottla.sim.plan import draw_plan
from ottla.sim.world import World


def main(brokers: int, first: int, count: int, faults: tuple[str, ...]) -> None:
    """Small worlds full of the given faults: what one safeguard is for happens in each of them."""
    assert ottla.__file__ is not None
    assert ottla.__file__.startswith(os.environ["PYTHONPATH"]), ottla.__file__
    logging.getLogger("ottla").setLevel(logging.CRITICAL + 1)
    for seed in range(first, first + count):
        plan = draw_plan(seed, brokers)._replace(
            busy_ms=3000,
            groups=4,
            healed_within_ms=12_000 if brokers == 1 else 30_000,
            faults=faults,
            fault_every_ms=(150, 700),
            pause_us=(1000, 60_000),
            sync_us=(2000, 60_000),
            value_bytes=(100, 260),
            harsh=0.5,
        )
        anomalies = World(plan).run().anomalies
        if anomalies:
            print(seed, *sorted({anomaly.kind for anomaly in anomalies}))
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), tuple(sys.argv[4:]))
