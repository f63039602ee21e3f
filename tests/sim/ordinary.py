"""Counts how soon ordinary worlds miss a safeguard: `python -m tests.sim.ordinary`, from the root of the repository.

Each safeguard of ordinary_mutants.py, or with `--transactions` of transaction_mutants.py, is removed from the source in
a process of its own, and ordinary worlds run there until one shows an anomaly. `--all` runs all seeds, and counts those
that show one.
"""

from __future__ import annotations

import argparse
import gc

from tests.sim.edited import run_edited
from tests.sim.ordinary_mutants import REMOVALS, Removal
from tests.sim.transaction_mutants import TRANSACTION_MUTANTS

from ottla.sim.world import run_seed


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.sim.ordinary", description=__doc__)
    asked.add_argument("--seeds", type=int, default=300)
    asked.add_argument("--from", dest="first", type=int, default=0)
    asked.add_argument("--brokers", type=int, default=3)
    asked.add_argument("--only", default="", help="a part of the safeguard's name")
    asked.add_argument("--all", action="store_true", help="count every seed that notices")
    asked.add_argument("--transactions", action="store_true", help="the safeguards of transactions")
    options = asked.parse_args()
    of_transactions = [Removal(each.safeguard, each.edits) for each in TRANSACTION_MUTANTS]
    removals = of_transactions if options.transactions else REMOVALS
    chosen = [each for each in removals if options.only in each.safeguard]
    noticed = 0
    for removal in chosen:
        shown = run_without(removal, options.brokers, options.first, options.seeds, through_all=options.all)
        noticed += bool(shown)
        print(
            f"{removal.safeguard}: {said_of(shown, options.first, options.seeds, through_all=options.all)}", flush=True
        )
    print(f"{noticed} of {len(chosen)} noticed")


def said_of(shown: list[list[str]], first: int, seeds: int, *, through_all: bool) -> str:
    if not shown:
        return f"not in {seeds}"
    after = f"after {int(shown[0][0]) - first + 1}, as {', '.join(shown[0][1:])}"
    return f"{len(shown)} of {seeds}, first {after}" if through_all else after


def run_without(
    removal: Removal, brokers: int, first: int, seeds: int, *, through_all: bool = False
) -> list[list[str]]:
    """The seeds that showed anomalies, each with their kinds."""
    return run_edited(removal.edits, shown_by, brokers, first, seeds, through_all)


def shown_by(brokers: int, first: int, seeds: int, through_all: bool) -> list[list[str]]:
    """The seeds whose ordinary worlds show anomalies, each with their kinds; the first such seed unless through all."""
    shown = []
    for seed in range(first, first + seeds):
        anomalies = run_seed(seed, brokers=brokers).anomalies
        gc.collect()
        if anomalies:
            shown.append([str(seed), *sorted({anomaly.kind for anomaly in anomalies})])
            if not through_all:
                break
    return shown


if __name__ == "__main__":
    main()
