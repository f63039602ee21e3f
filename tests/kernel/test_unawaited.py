"""Logs for whose sync nobody waits are submitted together, at intervals, or at once where somebody begins to wait."""

from __future__ import annotations

from ottla.kernel.seams import Syncable
from ottla.kernel.unawaited import UNAWAITED_SYNC_MS, Unawaited


def test_a_timer_is_asked_for_once_and_later_the_sooner_the_last_was() -> None:
    submitted: list[Syncable] = []
    unawaited = Unawaited(submitted.append)
    first, second = object(), object()
    assert unawaited.add(first, 1000.0) == 0.0  # type: ignore[arg-type]
    assert unawaited.add(second, 1000.0) is None  # type: ignore[arg-type]
    unawaited.ring(1000.0)
    assert submitted == [first, second]
    assert unawaited.add(first, 1000.0 + 5) == UNAWAITED_SYNC_MS - 5  # type: ignore[arg-type]


def test_who_is_hurried_is_submitted_once() -> None:
    submitted: list[Syncable] = []
    unawaited = Unawaited(submitted.append)
    log, unknown = object(), object()
    unawaited.add(log, 0.0)  # type: ignore[arg-type]
    for each in (log, log, unknown):
        unawaited.hurry(each)  # type: ignore[arg-type]
    unawaited.ring(0.0)
    assert submitted == [log]
