"""Stories driven by hand: stepped when their slot is filled, and never after they are closed."""

from __future__ import annotations

import sys

import pytest

from ottla.kernel.story import Slot, Story, run_story


def test_a_story_goes_on_in_the_turn_that_fills_its_slot():
    slot: Slot[int] = Slot()

    async def waits() -> int:
        return await slot + 1

    end = run_story(waits())
    assert not end.full
    slot.fill(4)
    assert end.result() == 5


def test_a_story_that_fills_its_own_slot_as_it_is_closed_is_not_stepped():
    """A fetch without a session does so: closing it closes the session that it waits in."""
    slot: Slot[None] = Slot()
    ends: list[object] = []

    async def waits() -> None:
        try:
            await slot
        finally:
            slot.fill(None)

    story = waits()
    Story(story, lambda result, error: ends.append((result, error)))
    story.close()
    assert slot.full
    assert ends == []


def test_a_story_that_is_closed_inside_out_closes_no_coroutine_twice(monkeypatch: pytest.MonkeyPatch):
    """The collector may begin with any object, and the slot may hold the last reference to the outer story."""
    slot: Slot[None] = Slot()
    faults: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", faults.append)

    async def waits() -> None:
        await slot

    inner = waits()

    async def outer() -> None:
        await inner

    Story(outer(), lambda result, error: None)
    inner.close()
    assert faults == []
