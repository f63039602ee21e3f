"""Begins an application anew, as Kafka's application reset tool does: its own topics, its state and its offsets go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client import CommittedOffset, TopicPartition
from ottla.streams.errors import TopologyError
from ottla.streams.on_spark.notes import APPLICATION, BATCHES, STOP, Notes
from ottla.streams.on_spark.places import held, open_files, state_url

if TYPE_CHECKING:
    from ottla.client import Admin

OWN = re.compile(
    r".*-(changelog|repartition|subscription-(registration|response)-topic)"
    r"|-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic"
)
CHECKPOINT = ("offsets/", "commits/", "sources/", "state/")


@dataclass(frozen=True, slots=True)
class Reset:
    """Everything that a reset changes; `state` and `checkpoint` are the places of a run on Spark."""

    application_id: str
    topics: tuple[str, ...]
    offsets: Mapping[TopicPartition, int]
    state: str | None = None
    checkpoint: str | None = None


def own_topics(application_id: str, topics: Sequence[str]) -> tuple[str, ...]:
    """The topics that the application has made for itself: changelogs, repartition topics, those of foreign keys."""
    prefix = application_id + "-"
    return tuple(t for t in sorted(topics) if t.startswith(prefix) and OWN.fullmatch("-" + t.removeprefix(prefix)))


def carry_out(admin: Admin, reset: Reset) -> None:
    """Do it. TopologyError where the application is running; what a reset that failed has done stays done."""
    if reset.state is not None:
        files = open_files(reset.state)
        with held(files, reset.application_id):
            _forget_state(reset)
    for outcome in admin.delete_topics(reset.topics).values() if reset.topics else ():
        if isinstance(outcome, Exception):
            raise outcome
    committed = {partition: CommittedOffset(offset) for partition, offset in reset.offsets.items()}
    for fault in admin.commit_offsets(reset.application_id, committed).values() if committed else ():
        if fault is not None:
            raise fault


def _forget_state(reset: Reset) -> None:
    """Remove state and checkpoint, the checkpoint first: state without one is refused, and the reset done again."""
    assert reset.state is not None
    if reset.checkpoint is not None:
        place = open_files(state_url(reset.checkpoint))
        for folder in CHECKPOINT:
            place.remove_folder(folder)
        place.remove(["metadata", ".metadata.crc"])
    files = open_files(reset.state)
    note = Notes(files).application()
    for part in note.tasks if note else ():
        files.remove_folder(f"{part}/")
    files.remove_folder(BATCHES)
    start: dict[str, dict[str, int]] = {}
    for partition, offset in reset.offsets.items():
        start.setdefault(partition.topic, {})[str(partition.partition)] = offset
    if start:
        Notes(files).begin_at(start)
    files.remove([APPLICATION, STOP])


def inactive(admin: Admin, application_id: str) -> None:
    """TopologyError where members of the application's group are at work."""
    from ottla.cli.kafka.groups_describe import state_of

    state = state_of(admin, application_id)
    if state not in ("Empty", "Dead"):
        raise TopologyError(f"the group {application_id} is {state.lower()}: stop the application's instances first")
