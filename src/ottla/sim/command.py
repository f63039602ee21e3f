"""`ottla sim`: runs worlds from seeds and reports on them; an anomaly ends it with the command to replay it."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import click

from ottla.sim.administrator import ACTS, DIRECTORY_ALTERED, REQUIRED_EDITED
from ottla.sim.assigned_group import ASSIGNED_ACTS
from ottla.sim.drawing import draw_plan
from ottla.sim.guests import GUEST_ACTS
from ottla.sim.late_markers import DELAYED
from ottla.sim.limiting import LIMITED
from ottla.sim.plan import CLUSTER_FAULTS, FAULTS, REPLICAS
from ottla.sim.transactions import EXPECTED_ACTS
from ottla.sim.world import THROTTLED, Note, Result, run_seed

_CAMPAIGN_SEEDS = 40
_RECORDS_A_SEED = 300
_ELECTIONS_A_SEED = 3


def simulate(chosen: Sequence[int], *, brokers: int, jobs: int, trace: bool) -> int:
    """Run the worlds of these seeds; 1 where one shows an anomaly, or too little happened in all."""
    seed = chosen[0] if len(chosen) == 1 else None
    on_note = _print_line if trace and seed is not None else None
    results: list[Result] = []
    worlds = _results(chosen, partial(_one, brokers=brokers, on_note=on_note), jobs)
    with _shown(worlds, len(chosen)) as running:
        for result in running:
            results.append(result)
            if result.anomalies:
                break
    if results[-1].anomalies:
        _say_anomalies(results[-1], brokers)
        return 1
    _say_floors(results)
    if missing := _too_little(results, brokers):
        click.echo(f"too little happened: {missing}", err=True)
        return 1
    return 0


def _results(seeds: Sequence[int], run: Callable[[int], Result], jobs: int) -> Iterator[Result]:
    """In the order of the seeds."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    workers = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield from workers.map(run, seeds)
    finally:
        workers.shutdown(cancel_futures=True)


def _shown(worlds: Iterator[Result], count: int) -> AbstractContextManager[Iterable[Result]]:
    """The results as they come; on a terminal with a progress bar."""
    if count == 1 or not sys.stderr.isatty():
        return nullcontext(worlds)
    return click.progressbar(worlds, length=count, label="worlds", show_pos=True, file=sys.stderr)


def _one(seed: int, brokers: int, on_note: Note | None) -> Result:
    """Run one world. Log lines of simulated brokers are silenced; a world is freed before the next begins."""
    log = logging.getLogger("ottla")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    gc.freeze()  # so that collections during the run look at this world alone
    try:
        return run_seed(seed, on_note, brokers=brokers)
    finally:
        gc.collect()  # the first ends stories that still waited, the second frees what they held
        gc.collect()
        gc.unfreeze()
        log.setLevel(level)


def _print_line(now_us: int, what: str) -> None:
    click.echo(f"{now_us / 1000:12.3f} {what}")


def _say_anomalies(result: Result, brokers: int) -> None:
    click.echo(f"seed {result.seed}: {len(result.anomalies)} anomalies", err=True)
    for anomaly in result.anomalies:
        click.echo(f"  {anomaly.kind}: {anomaly.what}", err=True)
    faults = ", ".join(draw_plan(result.seed, brokers).faults) or "none"
    click.echo(f"faults of this seed: {faults}", err=True)
    several = f" --brokers {brokers}" if brokers > 1 else ""
    click.echo(f"replay: ottla sim --seed {result.seed}{several} --trace", err=True)


def _say_floors(results: list[Result]) -> None:
    total: dict[str, int] = {}
    for result in results:
        for kind, count in (*result.faults.items(), *result.acts.items()):
            total[kind] = total.get(kind, 0) + count
    click.echo(f"{len(results)} seeds, no anomalies")
    click.echo(f"{sum(result.acknowledged for result in results)} records acknowledged")
    click.echo(f"{sum(result.elections for result in results)} elections of a leader")
    click.echo(f"{sum(result.starts for result in results)} starts of a broker")
    click.echo(f"{sum(result.virtual_ms for result in results) // 1000} s of virtual time")
    click.echo(f"{sum(result.recoveries_cut for result in results)} power cuts before a start was done")
    for kind, count in total.items():
        click.echo(f"{count} {kind}")
    if len(results) == 1:
        click.echo(f"trace {results[0].trace_hash}")


def _acts(brokers: int) -> list[str]:
    """The acts of an administrator in this world."""
    alone = ("preferred leader elected", REQUIRED_EDITED, DIRECTORY_ALTERED) if brokers == 1 else ()
    return [act for act in ACTS if act not in alone and (act != "replicas reassigned" or brokers > REPLICAS)]


def _too_little(results: list[Result], brokers: int) -> str:
    """The counts that a campaign must reach to be conclusive, and has not; single seeds are not judged so."""
    if len(results) < _CAMPAIGN_SEEDS:
        return ""
    kinds = CLUSTER_FAULTS if brokers > 1 else FAULTS
    missing = [kind for kind in kinds if not any(result.faults[kind] for result in results)]
    missing += [act for act in _acts(brokers) if not any(result.acts[act] for result in results)]
    of_several = (DELAYED,) if brokers > 1 else ()
    expected = (*EXPECTED_ACTS, *ASSIGNED_ACTS, *GUEST_ACTS, LIMITED, THROTTLED, *of_several)
    missing += [act for act in expected if not any(result.acts[act] for result in results)]
    if sum(result.acknowledged for result in results) < len(results) * _RECORDS_A_SEED:
        missing.append("acknowledged records")
    if sum(result.elections for result in results) < len(results) * _ELECTIONS_A_SEED:
        missing.append("elections of a leader")
    if not any(result.recoveries_cut for result in results):
        missing.append("power cuts before a start was done")
    return ", ".join(missing)
