"""`make fuzz`: a bounded campaign that prints its seed; `ARGS="--seed N"` repeats it."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), *(str(TESTS / room) for room in ("fuzz", "compat", "messages", "broker"))]

from campaign import campaign  # noqa: E402
from doorway import Fault, run_side_by_side  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--seed", type=int, help="of the campaign (default: a new one)")
    parser.add_argument(
        "--seconds", type=float, default=100.0, help="how long to attack a live broker (default 100; 0: not)"
    )
    parser.add_argument("--examples", type=int, default=6, help="valid requests to make of each version (default 6)")
    parser.add_argument("--cases", type=int, default=20_000, help="around a login, in this process (default 20000)")
    parser.add_argument("--jobs", type=int, default=1, help="processes for these cases (default 1)")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    try:
        outcomes = run_side_by_side(seed, options.cases, options.jobs, print)
    except Fault as fault:
        print(f"FAULT: {fault}", file=sys.stderr)
        return 1
    for outcome, count in sorted(outcomes.items()):
        print(f"  {count:>9,} {outcome}")
    if not options.seconds:
        return 0
    verdict = campaign(seed, seconds=options.seconds, examples=options.examples)
    print(verdict)
    for fault in verdict.faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
