"""The fourth judge: the broker does not fail, and after the last fault it serves everything again soon."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import Alive, Anomaly, Failed, Healed, History, Scanned, TransactionsEnded
from ottla.sim.checkers.transaction_history import TransactionsScanned


def check_progress(history: History) -> Iterator[Anomaly]:
    """Anomalies of liveness, and failures of brokers."""
    healed: Healed | None = None
    failed = False
    scanned = {event.log: None for event in history.events if isinstance(event, Scanned | TransactionsScanned)}
    for event in history.events:
        if isinstance(event, Failed):
            failed = True
            yield Anomaly(event.kind, event.what)
        elif isinstance(event, Healed):
            healed = event
        elif isinstance(event, TransactionsEnded) and healed is not None:
            late_us = event.at_us - healed.at_us - healed.within_us - history.repaired_within_us
            if late_us > 0:
                yield Anomaly("late", f"transactions in {history.name(event.log)} ended {late_us // 1000} ms too late")
        elif isinstance(event, Alive) and healed is not None and event.at_us - healed.at_us > healed.within_us:
            late_ms = (event.at_us - healed.at_us) // 1000
            yield Anomaly("late", f"{history.name(event.log)} took a write only {late_ms} ms after healing")
    if healed is None or failed:
        return
    for log, traits in history.traits.items():
        if traits.kept and log not in scanned:
            yield Anomaly("never-read", f"{history.name(log)} could not be read at the end")
