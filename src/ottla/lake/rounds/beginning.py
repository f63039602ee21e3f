"""The beginning of a topic that is new to the lake: parses `--from` and looks the offsets up."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import replace

from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_ms
from ottla.lake.notes.plans import Commit
from ottla.rows.plan import Edge, Limit, Offsets, SourceOffset, SpecificOffsets, Timestamps, flat
from ottla.rows.survey import Survey
from ottla.stores.base import LakeRefused

_MOST = (1 << 63) - 1
_EDGES = {"earliest": Edge.EARLIEST, "latest": Edge.LATEST}


def parse_beginning(text: str, now_ms: int | None = None) -> Limit:
    """`earliest`, `latest`, a moment (or milliseconds), or offsets as `{"topic":{"0":123}}`."""
    if text in _EDGES:
        return _EDGES[text]
    if text.startswith("{"):
        try:
            offsets = flat(json.loads(text))
        except ValueError as fault:
            raise LakeRefused(f"--from: {fault}") from fault
        for partition, offset in offsets.items():
            if not Edge.EARLIEST <= offset <= _MOST:
                raise LakeRefused(f"--from: {offset} for {partition} is not an offset; -2 is earliest, -1 latest")
        return SpecificOffsets(offsets)
    if text.isascii() and text.isdigit():
        milliseconds = int(text)
        if milliseconds > _MOST:
            raise LakeRefused(f"--from {text}: a time has at most 63 bits of milliseconds")
    else:
        try:
            milliseconds = moment_ms(text, time.time_ns() // 1_000_000 if now_ms is None else now_ms)
        except ValueError as fault:
            raise LakeRefused(
                f'--from: {fault}; or write earliest, latest, or offsets as {{"topic":{{"0":123}}}}'
            ) from None
    return Timestamps(milliseconds, latest_where_none=True)


def begun(committed: Commit, latest: SourceOffset, limit: Limit, survey: Survey) -> Commit | None:
    """The lake with its new topics at their beginnings; None if there are none.

    Written before any record is read: else, if a topic begins at its end, records that come between two looks would be
    skipped. A partition that a known topic gets later always begins at its first offset.
    """
    new = {
        partition: latest.topic_ids[partition.topic]
        for partition in latest.offsets
        if partition.topic not in committed.topic_ids
    }
    if not new or limit is Edge.EARLIEST:
        return None
    try:
        starts: Offsets = survey.limit(_of(limit, new.keys()), new, option="--from", starting=True)
    except ValueError as fault:
        raise LakeRefused(str(fault)) from fault
    for partition, end in survey.edges(starts.keys(), Edge.LATEST).items():
        if starts[partition] > end:
            raise LakeRefused(f"--from: {partition} ends at offset {end}: it cannot begin at {starts[partition]}")
    return replace(
        committed,
        number=committed.number + 1,
        offsets={**committed.offsets, **starts},
        topic_ids={**committed.topic_ids, **{partition.topic: topic_id for partition, topic_id in new.items()}},
    )


def _of(limit: Limit, partitions: Collection[TopicPartition]) -> Limit:
    """Offsets of these partitions alone: topics that the lake knows already are left out."""
    if not isinstance(limit, SpecificOffsets):
        return limit
    return SpecificOffsets({each: offset for each, offset in limit.offsets.items() if each in partitions})
