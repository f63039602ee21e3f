"""Decides where a copy goes on if the source or the target is not what it was. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ottla.kernel.ids import TopicPartition
from ottla.mirror.lane import LaneState, LaneStopped
from ottla.mirror.offset_map import OffsetMap

_OWN_IDS = 1 << 62
"""Producer ids of mirrors lie above this: far above those that brokers give out, which count from 0 in blocks."""


def producer_id(source_cluster: str, alias: str) -> int:
    """The producer id of the flow from a cluster under an alias: the same in every run, other for every source."""
    digest = hashlib.sha256(f"{source_cluster}\0{alias}".encode()).digest()
    return _OWN_IDS | int.from_bytes(digest[:7], "big")


@dataclass(frozen=True, slots=True)
class Present:
    """A partition and its mirror as they are now."""

    source: TopicPartition
    target: TopicPartition
    source_id: str
    target_id: str
    earliest: int
    """The source's first offset."""
    latest: int
    """The source's end."""
    cut_to: int | None = None
    """The offset that the source's log was cut back to, if the leader has said that it was."""


def settled(place: LaneState, now: Present, *, on_gap: str, on_reset: str) -> tuple[LaneState, str]:
    """Return the place to copy on from, and a sentence where it had to be moved; or raise LaneStopped.

    `on_gap` and `on_reset` are `stop` or `continue`.
    """
    if now.target_id and place.target_id and now.target_id != place.target_id:
        reason = f"{now.target.topic} was made anew at the target, and lacks what was copied before"
        anew = LaneState(now.earliest, 0, 0, now.source_id, now.target_id)
        return _moved(anew, on_reset, "on.reset", reason, f"copies {now.source} from offset {now.earliest} again")
    if now.source_id and place.source_id and now.source_id != place.source_id:
        anew = LaneState(now.earliest, place.downstream, place.copied, now.source_id, place.target_id, OffsetMap())
        reason = f"{now.source.topic} was made anew at the source"
        return _moved(anew, on_reset, "on.reset", reason, "copies what is there now, behind what was copied")
    cut_to = now.latest if now.cut_to is None else now.cut_to
    if place.upstream > cut_to and (now.cut_to is not None or place.upstream > now.latest):
        reason = f"{now.source} was cut back to offset {cut_to} at the source, and {place.upstream} was reached"
        anew = LaneState(cut_to, place.downstream, place.copied, now.source_id, place.target_id, OffsetMap())
        return _moved(anew, on_reset, "on.reset", reason, "copies what is there now, behind what was copied")
    if place.upstream < now.earliest:
        lost = now.earliest - place.upstream
        reason = (
            f"the source has deleted offsets {place.upstream} to {now.earliest - 1} of {now.source} before they were "
            f"copied: up to {lost} records are lost to the mirror"
        )
        moved = LaneState(now.earliest, place.downstream, place.copied, place.source_id, place.target_id, place.map)
        return _moved(moved, on_gap, "on.gap", reason, f"goes on at offset {now.earliest}")
    return place, ""


def _moved(place: LaneState, policy: str, option: str, reason: str, remedy: str) -> tuple[LaneState, str]:
    if policy == "stop":
        raise LaneStopped(f"{reason}. `{option} = continue` {remedy}")
    return place, f"{reason}; {option} = continue {remedy}"
