"""Runs cases in parallel, judges each, and on request keeps the folders of condemned ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from tests.damage.harms import NOTHING
from tests.damage.judges import checking, condemn
from tests.damage.story import CannotPrepare, Template, prepare
from tests.damage.trial import check, clean_up, run
from tests.damage.values import LAST, ONE, Case, Finding, Known, Outcome

SECOND_READER_EVERY = 10


class Judged(NamedTuple):
    """One case and its findings."""

    case: Case
    findings: list[Finding]
    outcome: Outcome


def prepared(folder: Path, wanted: Iterable[tuple[int, str]], jobs: int) -> dict[tuple[int, str], Template]:
    """The known set for each number of brokers and each stop, after a check that undamaged ones pass."""
    chosen = sorted(set(wanted))
    with ThreadPoolExecutor(jobs) as pool:
        made = list(pool.map(lambda each: prepare(folder / f"{each[0]}-{each[1]}", *each), chosen))
    templates = dict(zip(chosen, made, strict=True))
    for (count, stop), template in templates.items():
        control = Case(".lock", NOTHING, stop, ONE if count == 1 else LAST, "broker-1/.lock")
        outcome = run(template, control, folder / f"control-{count}-{stop}", 0, second_reader=True)
        if findings := judge(control, template.known, outcome):
            raise CannotPrepare(f"condemned without any damage: {control.name}: {findings}")
    return templates


def run_all(
    templates: Mapping[tuple[int, str], Template],
    cases: Sequence[Case],
    folder: Path,
    seed: int,
    *,
    jobs: int,
    keep: bool,
    told: Callable[[Judged], None],
    checks: bool = False,
) -> list[Judged]:
    """Run and judge all cases until an interrupt; `told` is called with each result.

    `checks`: start no broker, only run `ottla log check`.
    """
    found: dict[Case, Judged] = {}
    with ThreadPoolExecutor(jobs) as pool:
        running = [
            pool.submit(_one, templates, case, folder / f"case-{number}", seed, number, keep, checks)
            for number, case in enumerate(cases)
        ]
        try:
            for ended in as_completed(running):
                judged = ended.result()
                found[judged.case] = judged
                told(judged)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [found[case] for case in cases if case in found]


def _one(
    templates: Mapping[tuple[int, str], Template],
    case: Case,
    place: Path,
    seed: int,
    number: int,
    keep: bool,
    checks: bool,
) -> Judged:
    template = templates[1 if case.setting == ONE else 3, case.stop]
    try:
        if checks:
            outcome = check(template, case, place, seed)
        else:
            outcome = run(template, case, place, seed, second_reader=number % SECOND_READER_EVERY == 0)
    except Exception as fault:
        raise RuntimeError(f"the campaign itself failed in {case.name}") from fault
    findings = list(checking(case, template.known, outcome)) if checks else judge(case, template.known, outcome)
    judged = Judged(case, findings, outcome)
    if not (keep and judged.findings):
        clean_up(place)
    return judged


def judge(case: Case, known: Known, outcome: Outcome) -> list[Finding]:
    """The findings of all judges, each sentence once: three views often show the same."""
    return list(dict.fromkeys(condemn(case, known, outcome)))
