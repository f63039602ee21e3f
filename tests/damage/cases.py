"""Lists the cases (each kind of file, damage, stop and setting), and draws samples in which every kind occurs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from random import Random

from tests.damage.harms import HARMS, Bit, applies, bits_of
from tests.damage.kinds import KINDS, Concerns, partition_of, sort_out
from tests.damage.story import Template
from tests.damage.values import ALONE, CLEAN, FIRST, KILL, LAST, ONE, Case

STOPS = (CLEAN, KILL)
SETTINGS = (ONE, FIRST, LAST, ALONE)


def cases_of(
    templates: Mapping[tuple[int, str], Template], seed: int, *, bits: int, only: Collection[str]
) -> list[Case]:
    """All cases: a file is drawn for each cell, and for single bits `bits` places in it."""
    found: list[Case] = []
    for setting in SETTINGS:
        for stop in STOPS:
            template = templates.get((1 if setting == ONE else 3, stop))
            if template is not None:
                found += _of_template(template, setting, stop, seed, bits, only)
    return found


def _of_template(
    template: Template, setting: str, stop: str, seed: int, bits: int, only: Collection[str]
) -> list[Case]:
    found = []
    for kind, paths in sorted(sort_out(template.files()).items()):
        if (only and kind not in only) or not _makes_sense(kind, setting):
            continue
        for harm in HARMS:
            random = Random(f"{seed} {kind} {harm} {stop} {setting}")
            path = _draw(template, harm, paths, random)
            if path is None:
                continue
            strata = _strata(template, path, random, bits) if harm == "bit" else [""]
            found += [Case(kind, harm, stop, setting, path, stratum) for stratum in strata]
    return found


def _makes_sense(kind: str, setting: str) -> bool:
    """False for cases without meaning: all brokers need the store at once; and the only directory of a single broker
    holds the store too, so that nothing could tell of its loss."""
    if KINDS[kind].concerns is Concerns.STORE:
        return setting in (ONE, FIRST)
    return kind != "log directory" or setting != ONE


def _draw(template: Template, harm: str, paths: Sequence[str], random: Random) -> str | None:
    """A file that the damage changes; each topic is drawn as often as any other."""
    by_topic: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        partition = partition_of(path)
        by_topic["" if partition is None else str(partition)].append(path)
    for topic in random.sample(sorted(by_topic), len(by_topic)):
        for path in random.sample(by_topic[topic], len(by_topic[topic])):
            full = template.root / path
            if (full.is_file() or full.is_dir()) and applies(harm, full, template.older_than(path)):
                return path
    return None


def _strata(template: Template, path: str, random: Random, bits: int) -> list[str]:
    content = (template.root / path).read_bytes()
    strata = [bit.stratum for bit in bits_of(path, content, random)]
    return random.sample(strata, min(bits, len(strata)))


def bit_of(case: Case, content: bytes, seed: int) -> Bit | None:
    """The bit that a case flips."""
    if case.harm != "bit":
        return None
    found = bits_of(case.path, content, Random(f"{seed} {case.name}"))
    return next(bit for bit in found if bit.stratum == case.stratum)


def sample(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Draw `count` cases: the kinds take turns, and no kind's damage repeats before each damage of each kind was
    drawn once; stops and settings vary."""
    random = Random(f"{seed} sample")
    by_damage: dict[str, dict[str, list[Case]]] = defaultdict(lambda: defaultdict(list))
    for case in random.sample(cases, len(cases)):
        by_damage[case.kind][case.harm].append(case)
    turns = {kind: random.sample(sorted(harms), len(harms)) for kind, harms in sorted(by_damage.items())}
    found: list[Case] = []
    while len(found) < len(cases):
        for place in range(len(HARMS)):
            for kind, harms in turns.items():
                if place < len(harms) and by_damage[kind][harms[place]]:
                    found.append(by_damage[kind][harms[place]].pop())
    return found[:count]


def parse(name: str) -> Case:
    """A case by its name, as a report gives it."""
    kind, harm, stop, setting, path = name.split(":")
    harm, _, stratum = harm.partition(" ")
    if kind not in KINDS or harm not in HARMS or stop not in STOPS or setting not in SETTINGS:
        raise ValueError(f"{name!r} is no case: KIND:DAMAGE:STOP:SETTING:PATH is one")
    return Case(kind, harm, stop, setting, path, stratum)
