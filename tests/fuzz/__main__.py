"""`make fuzz`: a bounded campaign that prints its seed; `ARGS="--seed N"` repeats it."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("fuzz", "compat", "messages")]

from campaign import campaign  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--seed", type=int, help="of the campaign (default: a new one)")
    parser.add_argument("--seconds", type=float, default=100.0, help="how long to attack (default 100)")
    parser.add_argument("--examples", type=int, default=6, help="valid requests to make of each version (default 6)")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    verdict = campaign(seed, seconds=options.seconds, examples=options.examples)
    print(verdict)
    for fault in verdict.faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
