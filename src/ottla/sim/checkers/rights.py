"""The fourteenth judge: a guest is served while it has its rights, and not once every broker knows that it has none.

An answer that was formed before may come later. So what counts is what the guest sent, and what others wrote, after
the last broker had learned of the dismissal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.sim.checkers.history import (
    Acknowledged,
    Admitted,
    Anomaly,
    BatchRefused,
    Dismissed,
    Dismissing,
    History,
    Polled,
    Sent,
)


class _Stay(NamedTuple):
    """When a guest was admitted, when its dismissal began, and when all knew of it; None for what did not happen."""

    topic_id: str
    admitted_us: int
    dismissing_us: int | None = None
    dismissed_us: int | None = None

    def was_out(self, at_us: int) -> bool:
        return self.dismissed_us is not None and self.dismissed_us <= at_us

    def was_in(self, from_us: int) -> bool:
        """True if the guest had its rights from then on until now, by the events so far."""
        return self.admitted_us <= from_us and self.dismissing_us is None


def check_rights(history: History) -> Iterator[Anomaly]:
    """Batches and records that a guest without rights was given, and refusals of a guest with rights."""
    stays: dict[str, _Stay] = {}
    sent: dict[tuple[str, int], int] = {}
    written: dict[bytes, int] = {}
    for event in history.events:
        if isinstance(event, Admitted):
            stays[event.guest] = _Stay(event.topic_id, event.at_us)
        elif isinstance(event, Dismissing):
            stays[event.guest] = stays[event.guest]._replace(dismissing_us=event.at_us)
        elif isinstance(event, Dismissed):
            stays[event.guest] = stays[event.guest]._replace(dismissed_us=event.at_us)
        elif isinstance(event, Sent):
            sent[event.producer, event.batch] = event.at_us
            written |= dict.fromkeys(event.values, event.at_us)
        elif isinstance(event, Acknowledged | BatchRefused) and event.producer in stays:
            yield from _of_a_batch(history, event, stays[event.producer], sent[event.producer, event.batch])
        elif isinstance(event, Polled) and (stay := stays.get(event.reader.partition(".")[0])) is not None:
            late = [value for _, value in event.records if value in written and stay.was_out(written[value])]
            if late:
                where = f"{history.name(event.log)} from {event.asked_offset}"
                yield Anomaly(
                    "read-without-right", f"{event.reader} got {late[0]!r} of {where}, written after its dismissal"
                )


def _of_a_batch(history: History, event: Acknowledged | BatchRefused, stay: _Stay, sent_us: int) -> Iterator[Anomaly]:
    what = f"batch {event.batch} of {event.producer} to {history.name(event.log)}"
    if isinstance(event, Acknowledged):
        if stay.was_out(sent_us):
            yield Anomaly("written-without-right", f"{what} was sent after its dismissal, and acknowledged")
    elif stay.was_in(sent_us):
        yield Anomaly("refused-with-right", f"{what} was refused, though it has its rights")
