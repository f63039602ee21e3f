"""The offsets of a log keep their order through every transition."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import InvariantBroken
from ottla.storage.bounds import LogBounds


def bounds_of(start: int, end: int, *, on_disk: int | None = None, caching: bool = False) -> LogBounds:
    bounds = LogBounds()
    bounds.caching(caching)
    bounds.opened(start, start)
    bounds.settled()
    if end > start:
        bounds.appended(end)
    bounds.disk_holds(end if on_disk is None else on_disk)
    return bounds


def values(bounds: LogBounds) -> tuple[int, ...]:
    """(start, high watermark, recovery point, on disk, synced, end)."""
    return (bounds.start, bounds.high_watermark, bounds.recovery_point, bounds.on_disk, bounds.synced, bounds.end)


def test_what_recovery_has_found_counts_as_on_disk_once_it_is_settled():
    bounds = LogBounds()
    bounds.opened(3, 9)
    assert values(bounds) == (3, 3, 0, 0, 0, 9)
    bounds.settled()
    assert values(bounds) == (3, 3, 9, 9, 9, 9)


def test_an_append_moves_the_end_and_a_sync_what_is_on_disk():
    bounds = bounds_of(0, 0)
    bounds.appended(4)
    assert (bounds.synced, bounds.end) == (0, 4)
    assert bounds.disk_holds(3) and bounds.synced == 3
    assert not bounds.disk_holds(2), "an earlier sync that ends later"
    assert bounds.synced == 3


def test_with_write_caching_the_end_counts_as_synced_and_no_sync_raises_it():
    bounds = bounds_of(0, 4, on_disk=1, caching=True)
    assert (bounds.on_disk, bounds.synced) == (1, 4)
    assert not bounds.disk_holds(4)
    bounds.appended(6)
    bounds.caching(False)
    assert bounds.synced == 4
    bounds.caching(True)
    assert bounds.synced == 6


def test_the_high_watermark_never_passes_the_end():
    bounds = bounds_of(0, 4)
    bounds.committed(3)
    assert bounds.high_watermark == 3
    bounds.committed(9)
    assert bounds.high_watermark == 4


def test_the_high_watermark_never_falls_by_a_commit():
    bounds = bounds_of(0, 4)
    bounds.committed(3)
    with pytest.raises(InvariantBroken, match="cannot fall to 2"):
        bounds.committed(2)
    bounds.committed(3)
    assert bounds.high_watermark == 3


def test_an_unclean_leader_takes_back_what_was_committed_but_the_records_stay():
    bounds = bounds_of(1, 6, on_disk=5)
    bounds.committed(4)
    bounds.overruled(2)
    assert values(bounds) == (1, 2, 1, 5, 5, 6)
    bounds.committed(3)
    assert bounds.high_watermark == 3


@pytest.mark.parametrize("offset", [0, 4], ids=["below the start", "above the high watermark"])
def test_an_unclean_leader_neither_deletes_nor_commits(offset: int) -> None:
    bounds = bounds_of(1, 6)
    bounds.committed(3)
    with pytest.raises(InvariantBroken):
        bounds.overruled(offset)


def test_a_truncation_takes_all_offsets_along_that_lie_behind_it():
    bounds = bounds_of(2, 9)
    bounds.committed(8)
    bounds.recovery_point_raised(7)
    bounds.truncated(5)
    assert values(bounds) == (2, 5, 5, 5, 5, 5)
    bounds.truncated(1)
    assert values(bounds) == (1, 1, 1, 1, 1, 1)


def test_a_truncation_leaves_alone_what_lies_before_it():
    bounds = bounds_of(1, 9, on_disk=4)
    bounds.committed(3)
    bounds.truncated(6)
    assert values(bounds) == (1, 3, 1, 4, 4, 6)


def test_a_log_that_begins_again_is_on_disk_at_once():
    bounds = bounds_of(0, 4, on_disk=1)
    bounds.restarted(20)
    assert values(bounds) == (20, 20, 20, 20, 20, 20)


def test_what_is_deleted_was_committed():
    bounds = bounds_of(0, 4)
    bounds.start_raised(3)
    assert (bounds.start, bounds.high_watermark) == (3, 3)


def test_a_recovery_point_that_was_lowered_in_vain_goes_back():
    bounds = bounds_of(0, 9)
    bounds.recovery_point_raised(8)
    bounds.recovery_point_lowered(5)
    assert bounds.recovery_point == 5
    bounds.recovery_point_raised(8)
    assert bounds.recovery_point == 8


def test_a_copy_that_takes_the_place_of_a_log_starts_and_is_committed_as_it_was():
    served, copy = bounds_of(2, 6), bounds_of(0, 6)
    served.committed(5)
    copy.took_place_of(served)
    assert values(copy) == (2, 5, 0, 6, 6, 6)


@pytest.mark.parametrize(
    ("transition", "offset"),
    [
        ("appended", 3),
        ("disk_holds", 5),
        ("truncated", 5),
        ("start_raised", 5),
        ("start_raised", 0),
        ("committed", 0),
        ("recovery_point_raised", 3),
        ("recovery_point_raised", 0),
        ("restarted", -1),
    ],
)
def test_a_transition_that_breaks_the_order_is_refused(transition: str, offset: int) -> None:
    bounds = bounds_of(1, 4, on_disk=2)
    with pytest.raises(InvariantBroken):
        getattr(bounds, transition)(offset)


def test_a_copy_that_ends_elsewhere_takes_no_place():
    with pytest.raises(InvariantBroken):
        bounds_of(0, 6).took_place_of(bounds_of(0, 7))


def test_a_log_ends_where_it_starts_or_behind():
    with pytest.raises(InvariantBroken):
        LogBounds().opened(5, 4)
