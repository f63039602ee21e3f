"""`ottla doctor`: brokers whose clocks are in doubt, or differ from the clock of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from ottla.cli.clock import doubt_of
from ottla.client.admin.clocks import BrokerClock, broker_clocks
from ottla.client.blocking.cluster import Cluster
from ottla.kernel.times import duration_text, utc_text

_DIFFER_MS = 60_000
_HARMLESS_MS = 16 * 3_600_000
"""A tenth of seven days, the default retention: topics that keep records for as long go by the clock all the same."""


class ClockFinding(NamedTuple):
    what: str
    advice: str
    wrong: bool


def findings(cluster: Cluster) -> Iterator[ClockFinding]:
    """One line for each broker that tells the time, or one for all whose clocks are right."""
    right = 0
    for number in list(cluster.plan.metadata.brokers):
        for clock in cluster.run(broker_clocks(cluster.plan, [number])):
            here_ms = int(time.time() * 1000)
            found = [one for one in (_doubtful(clock), _different(clock, here_ms)) if one is not None]
            yield from found
            right += not found
    if right:
        yield ClockFinding(f"the clocks of {right} broker{'s' * (right != 1)} agree with this machine's", "", False)


def _doubtful(clock: BrokerClock) -> ClockFinding | None:
    if not clock.in_doubt:
        return None
    what = (
        f"broker {clock.broker}: {doubt_of(clock)} ({utc_text(clock.wall_ms)}, proven is {utc_text(clock.proven_ms)})"
    )
    if not clock.settled:
        return ClockFinding(
            what, "nothing is deleted by its age there until more than half of the others can be asked", True
        )
    if clock.behind_ms:
        return ClockFinding(
            what, "records of producers whose clocks are right may be refused as too new: set the clock of its machine "
            "(if it is right, run `ottla clock accept`)", True,
        )  # fmt: skip
    advice = (
        "what is old by the proven time alone is deleted, which is later: run `ottla clock accept` if the clock is "
    )
    return ClockFinding(what, advice + "right, else set it", clock.ahead_ms > _HARMLESS_MS)


def _different(clock: BrokerClock, here_ms: int) -> ClockFinding | None:
    ahead_ms = clock.wall_ms - here_ms
    if abs(ahead_ms) < _DIFFER_MS:
        return None
    how = f"{duration_text(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'}"
    return ClockFinding(
        f"broker {clock.broker}: its clock is {how} that of this machine", "one of the two is wrong", True
    )
