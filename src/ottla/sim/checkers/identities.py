"""The eleventh judge: each producer id is given to one owner only.

An owner is a transactional id, or one request without a transactional id.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import Anomaly, History
from ottla.sim.checkers.transaction_history import IdGiven, Owned


def check_identities(history: History) -> Iterator[Anomaly]:
    """Producer ids that two owners were given."""
    owners: dict[int, str] = {}
    for event in history.events:
        if isinstance(event, Owned):
            owner = f"transactional id {event.transactional_id}"
        elif isinstance(event, IdGiven):
            owner = f"producer {event.producer}"
        else:
            continue
        first = owners.setdefault(event.producer_id, owner)
        if first != owner:
            yield Anomaly("shared-id", f"producer id {event.producer_id}: {first} and {owner}")
