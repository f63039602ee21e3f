"""Applies all judges to one history."""

from __future__ import annotations

from ottla.sim.checkers.commits import check_commits
from ottla.sim.checkers.consumed import check_consumed
from ottla.sim.checkers.contested import check_contested
from ottla.sim.checkers.copies import check_copies
from ottla.sim.checkers.decisions import check_decisions
from ottla.sim.checkers.forgotten import without_forgotten
from ottla.sim.checkers.generations import check_successors
from ottla.sim.checkers.history import Anomaly, History
from ottla.sim.checkers.identities import check_identities
from ottla.sim.checkers.jepsen import check_jepsen
from ottla.sim.checkers.order import check_order
from ottla.sim.checkers.progress import check_progress
from ottla.sim.checkers.records import check_records
from ottla.sim.checkers.redpanda import check_redpanda
from ottla.sim.checkers.rights import check_rights
from ottla.sim.checkers.sessions import check_sessions
from ottla.sim.checkers.transactions import check_transactions

MOST_OF_A_KIND = 3
_JUDGES = (
    check_progress,
    check_records,
    check_order,
    check_commits,
    check_jepsen,
    check_redpanda,
    check_transactions,
    check_consumed,
    check_copies,
    check_contested,
    check_successors,
    check_identities,
    check_decisions,
    check_rights,
    check_sessions,
)


def check(history: History) -> list[Anomaly]:
    """The anomalies, a few of each kind."""
    found: list[Anomaly] = []
    history = without_forgotten(history)
    counts: dict[str, int] = {}
    for judge in _JUDGES:
        for anomaly in judge(history):
            counts[anomaly.kind] = counts.get(anomaly.kind, 0) + 1
            if counts[anomaly.kind] <= MOST_OF_A_KIND:
                found.append(anomaly)
    return found
