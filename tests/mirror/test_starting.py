"""The place at which a copy goes on if the source or the target is not what it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.mirror.lanes import SOURCE, TARGET

from ottla.mirror.lane import LaneState, LaneStopped
from ottla.mirror.starting import Present, producer_id, settled

NOW = Present(SOURCE, TARGET, "s1", "t1", 10, 500)
PLACE = LaneState(100, 90, 90, "s1", "t1")


def test_a_place_that_is_still_there_stays() -> None:
    assert settled(PLACE, NOW, on_gap="stop", on_reset="stop") == (PLACE, "")


def test_records_that_were_deleted_before_they_were_copied_stop_the_partition_and_are_counted() -> None:
    with pytest.raises(LaneStopped, match=r"deleted offsets 100 to 119 .* up to 20 records .*`on.gap = continue`"):
        settled(PLACE, replace(NOW, earliest=120), on_gap="stop", on_reset="stop")
    place, moved = settled(PLACE, replace(NOW, earliest=120), on_gap="continue", on_reset="stop")
    assert (place.upstream, place.copied, place.map is PLACE.map) == (120, 90, True)
    assert "20 records are lost" in moved


@pytest.mark.parametrize(
    ("now", "says", "upstream"),
    [
        (replace(NOW, source_id="s2"), "made anew at the source", 10),
        (replace(NOW, latest=60), "cut back to offset 60", 60),
        (replace(NOW, cut_to=70), "cut back to offset 70", 70),
    ],
)
def test_another_source_stops_the_partition_or_is_copied_behind_with_a_map_of_its_own(
    now: Present, says: str, upstream: int
) -> None:
    with pytest.raises(LaneStopped, match=says):
        settled(PLACE, now, on_gap="continue", on_reset="stop")
    place, moved = settled(PLACE, now, on_gap="stop", on_reset="continue")
    assert (place.upstream, place.downstream, place.copied) == (upstream, 90, 90)
    assert place.map is not PLACE.map
    assert says in moved


def test_a_target_that_was_made_anew_gets_everything_again() -> None:
    with pytest.raises(LaneStopped, match="made anew at the target"):
        settled(PLACE, replace(NOW, target_id="t2"), on_gap="continue", on_reset="stop")
    place, _ = settled(PLACE, replace(NOW, target_id="t2"), on_gap="stop", on_reset="continue")
    assert (place.upstream, place.downstream, place.copied, place.target_id) == (10, 0, 0, "t2")


def test_producer_ids_of_mirrors_are_far_above_those_of_brokers_and_differ_by_source() -> None:
    ids = {producer_id(cluster, alias) for cluster in ("c1", "c2") for alias in ("us", "eu")}
    assert len(ids) == 4
    assert all(1 << 62 <= each < 1 << 63 for each in ids)
    assert producer_id("c1", "us") == producer_id("c1", "us")
