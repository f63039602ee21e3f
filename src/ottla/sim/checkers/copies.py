"""The tenth judge: each record that a group consumes in transactions has exactly one record made of it in the output.

It compares the committed records of the ledger with the records of the source, and does not rely on what the clients
believed to consume: a record says in its value which input it was made of. Inputs that an administrator asked to delete
may have been passed over, also where the deletion was not answered and they are there in the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import Anomaly, DeleteAsked, History, LogKey, Scanned
from ottla.sim.checkers.transaction_history import OffsetsRead
from ottla.sim.checkers.transactions import Fate, Known

Place = tuple[str, LogKey]


def check_copies(history: History) -> Iterator[Anomaly]:
    """Anomalies of the records that transforming clients have made."""
    known = Known(history)
    if not known.logs:
        return
    reached: dict[Place, int] = {}
    inputs: dict[LogKey, list[int]] = {}
    kept_from: dict[LogKey, int] = {}
    for event in history.events:
        if isinstance(event, OffsetsRead):
            reached[event.group, event.log] = event.offset
        elif isinstance(event, Scanned):
            inputs[event.log] = [offset for offset, _ in event.records]
        elif isinstance(event, DeleteAsked):
            kept_from[event.log] = max(event.before, kept_from.get(event.log, 0))
    for place, made in _made(known).items():
        group, log = place
        name = f"{history.name(log)}, {group}"
        for offset, by in made.items():
            if len(by) > 1:
                yield Anomaly("copied-twice", f"{name}: {offset} by {' and '.join(by)}")
        due = range(kept_from.get(log, 0), reached.get(place, 0))
        for offset in [offset for offset in inputs.get(log, ()) if offset in due and offset not in made]:
            yield Anomaly("never-copied", f"{name}: {offset}, and {reached[place]} is committed")


def _made(known: Known) -> dict[Place, dict[int, list[str]]]:
    """By group and log, the transactions that have made a committed record of each input."""
    made: dict[Place, dict[int, list[str]]] = {}
    for name, transaction in known.transactions.items():
        if not transaction.moves:
            continue
        committed = [
            value.rpartition(b":")[2].split(b"@")
            for put in transaction.puts
            for value in put.values
            if put.log in known.logs and known.logs[put.log].fate(value) is Fate.COMMITTED
        ]
        for move in transaction.moves:
            of_place = made.setdefault((move.group, move.log), {})
            for partition, offset in committed:
                if int(partition) == move.log.partition:
                    of_place.setdefault(int(offset), []).append(name)
    return made
