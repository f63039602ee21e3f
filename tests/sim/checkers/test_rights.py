"""The judge of rights finds what a guest without rights was given, and a refusal of a guest with rights."""

from __future__ import annotations

import pytest
from planted import LOG, A, B, acknowledged, polled, sent

from ottla.kernel.errors import ErrorCode
from ottla.sim.checkers.history import Admitted, BatchRefused, Dismissed, Dismissing, Event, History
from ottla.sim.checkers.rights import check_rights

GUEST = "guest1"
IN = Admitted(10, GUEST, LOG.topic_id)
GOING = Dismissing(20, GUEST)
OUT = Dismissed(30, GUEST)
BEFORE, IN_TIME, MEANWHILE, LATE = 5, 15, 25, 35
"""Times before the guest is admitted, while it has its rights, while it loses them, and once all know of that."""


def written(at: int) -> Event:
    """A batch of the guest, sent at a time, which is its number too."""
    return sent(at, A, producer=GUEST)


def refused(at: int) -> Event:
    return BatchRefused(at, GUEST, LOG, at, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def read(value: bytes) -> Event:
    return polled(0, value, reader=f"{GUEST}.1")


def kinds(*events: Event) -> set[str]:
    history = History()
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check_rights(history)}


@pytest.mark.parametrize(
    "events",
    [
        (written(BEFORE), refused(BEFORE), IN),
        (written(BEFORE), IN, refused(BEFORE)),
        (IN, written(IN_TIME), acknowledged(IN_TIME, 0, GUEST)),
        (IN, written(IN_TIME), GOING, refused(IN_TIME)),
        (IN, written(IN_TIME), GOING, OUT, acknowledged(IN_TIME, 0, GUEST)),
        (IN, GOING, written(MEANWHILE), OUT, acknowledged(MEANWHILE, 0, GUEST)),
        (IN, GOING, OUT, written(LATE), refused(LATE)),
        (IN, GOING, written(LATE), acknowledged(LATE, 0, GUEST)),
        (IN, sent(MEANWHILE, B), GOING, OUT, read(B)),
        (IN, GOING, OUT, sent(LATE, B), polled(0, B)),
    ],
    ids=[
        "refused before", "refused late, from before", "served", "refused as it goes", "answered late",
        "in time for some broker", "refused after", "not known by all", "older record", "another reader",
    ],
)  # fmt: skip
def test_what_may_be_is_passed_over(events: tuple[Event, ...]):
    assert kinds(*events) == set()


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ((IN, GOING, OUT, written(LATE), acknowledged(LATE, 0, GUEST)), "written-without-right"),
        ((IN, GOING, OUT, sent(LATE, B), read(B)), "read-without-right"),
        ((IN, written(IN_TIME), refused(IN_TIME)), "refused-with-right"),
    ],
)
def test_what_must_not_be_is_found(events: tuple[Event, ...], kind: str):
    assert kinds(*events) == {kind}
