"""`ottla sim`: the options of simulated worlds. sim/command.py runs them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.command import Command
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _simulate(given: Given) -> int:
    from ottla.sim.command import simulate

    seeds, seed = given.number("seeds"), given.number("seed")
    first = _between(given, "from", 0, 1 << 63)
    brokers, jobs = _between(given, "brokers", 1, 9), _between(given, "jobs", 1, 64)
    if (seeds is None) == (seed is None):
        raise Misuse("give either --seeds N or --seed S")
    if seed is not None:
        if "from" in given:
            raise Misuse("--from goes with --seeds")
        return simulate([_between(given, "seed", 0, 1 << 63)], brokers=brokers, jobs=jobs, trace="trace" in given)
    if "trace" in given:
        raise Misuse("--trace goes with --seed: it prints the events of one world")
    count = _between(given, "seeds", 1, 1 << 63)
    return simulate(range(first, first + count), brokers=brokers, jobs=jobs, trace=False)


def _between(given: Given, name: str, least: int, most: int) -> int:
    number = given.count(name)
    if not least <= number <= most:
        raise Misuse(f"--{name} {number}: {least} to {most} are possible")
    return number


COMMAND = Command(
    "ottla sim --seed S [--trace] | --seeds N [--from S]",
    "Run the real broker in virtual time, with clients and faults from a seed, and judge what the clients saw.",
    _simulate,
    [
        Option("seeds", "Run N seeds, from --from on.", "N", "Long"),
        Option("from", "The first seed of --seeds.", "S", "Long", default="0"),
        Option("seed", "Run this seed alone.", "S", "Long"),
        Option("brokers", "Brokers of each world.", "N", "Integer", default="1"),
        Option("jobs", "Processes that share the seeds.", "N", "Integer", default="1"),
        Option("trace", "Print every event of --seed, with its virtual time."),
    ],
    has_json=False,
    connects=False,
)
