"""Notes beside the state: whose it is, what each batch must find again when it is repeated, a wish to stop.

application.json     the topology's shape, its tasks, the query of Spark
batches/N.json       the time of day of batch N, and the ends of global tables
start.json           the offsets at which a run without a checkpoint begins, after `ottla streams reset`
stop                 `ottla streams stop` was here
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ottla.streams.difference import Difference, Shape, difference
from ottla.streams.errors import TopologyError
from ottla.streams.on_spark.tables import Spans
from ottla.streams.state.folder import KEPT_BATCHES, Files

APPLICATION, START, STOP, BATCHES = "application.json", "start.json", "stop", "batches/"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ApplicationNote:
    """`tasks`: how many each sub-topology has; `marker_topic` stands in the markers of the sink."""

    application_id: str
    shape: Shape
    tasks: Mapping[int, int]
    marker_topic: str
    query: str = ""

    def to_json(self) -> bytes:
        """The note as a file holds it."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> ApplicationNote:
        """The note of a file."""
        told = json.loads(data)
        if (kind := told.pop("format")) != FORMAT:
            raise TopologyError(f"the state has format {kind}, and this version of ottla knows format {FORMAT}")
        tasks = {int(part): count for part, count in told["tasks"].items()}
        return cls(**{**told, "shape": Shape.from_json(told["shape"]), "tasks": tasks})

    def changes(self, newer: ApplicationNote) -> Difference:
        """The difference to another version of the application."""
        found = difference(self.shape, newer.shape)
        resized = [
            f"sub-topology {part} had {count} tasks and has {newer.tasks[part]}: keys would be looked for in the state "
            "of other tasks"
            for part, count in self.tasks.items()
            if newer.tasks.get(part, count) != count and part in self.shape.numbers.values()
        ]
        return Difference((*found.breaking, *resized), found.harmless)


@dataclass(frozen=True, slots=True)
class BatchNote:
    """Facts that a batch must find again."""

    now_ms: int
    tables: Spans


class Notes:
    """The notes of one application."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def application(self) -> ApplicationNote | None:
        """The application whose state this is; None for a new one."""
        data = self._files.read(APPLICATION)
        return None if data is None else ApplicationNote.from_json(data)

    def admit(self, newer: ApplicationNote) -> tuple[ApplicationNote, Difference]:
        """Let a version of the application go on with the state; TopologyError says why it cannot."""
        older = self.application()
        if older is None:
            self._files.replace(APPLICATION, newer.to_json())
            return newer, Difference((), ())
        if older.application_id != newer.application_id:
            raise TopologyError(f"the state here is of the application {older.application_id}: name another checkpoint")
        found = older.changes(newer)
        refuse(found)
        kept = replace(newer, query=older.query, marker_topic=older.marker_topic)
        if kept != older:
            self._files.replace(APPLICATION, kept.to_json())
        return kept, found

    def admit_query(self, note: ApplicationNote, query: str) -> ApplicationNote:
        """Note Spark's query at its first batch; TopologyError for state that another checkpoint belongs to."""
        if note.query and note.query != query:
            raise TopologyError(
                f"the state is of the query {note.query}, and the checkpoint of the query {query}: bring both back "
                "together, or reset the application"
            )
        if note.query:
            return note
        named = replace(note, query=query)
        self._files.replace(APPLICATION, named.to_json())
        return named

    def batch(self, number: int, fresh: BatchNote) -> BatchNote:
        """The note of a batch: that of its first attempt, or else this one."""
        name = f"{BATCHES}{number}.json"
        if self._files.create(name, json.dumps(asdict(fresh)).encode()):
            if number % KEPT_BATCHES == 0:
                old = [entry.name for entry in self._files.entries(BATCHES)]
                self._files.remove([each for each in old if _number(each) < number - KEPT_BATCHES])
            return fresh
        told: dict[str, Any] = json.loads(self._files.read(name) or b"")
        return BatchNote(told["now_ms"], {t: {p: tuple(s) for p, s in e.items()} for t, e in told["tables"].items()})

    def begin_at(self, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Note where a run without a checkpoint begins, by topic and partition."""
        self._files.replace(START, json.dumps(offsets).encode())

    def beginning(self) -> dict[str, dict[str, int]] | None:
        """The offsets that a reset has noted, by topic and partition; None without one."""
        data = self._files.read(START)
        told: dict[str, dict[str, int]] | None = None if data is None else json.loads(data)
        return told

    def wish_to_stop(self) -> None:
        """Ask the running application to end."""
        self._files.replace(STOP, b"stop\n")

    def must_stop(self) -> bool:
        """True once somebody has asked."""
        return self._files.read(STOP) is not None

    def forget_stop(self) -> None:
        """Take the wish away."""
        self._files.remove([STOP])


def refuse(found: Difference) -> None:
    """TopologyError where the state does not fit any more."""
    if found.breaking:
        raise TopologyError(
            f"this change needs a new application id, or a reset: {'; '.join(found.breaking)} "
            "(ottla streams upgrade shows it, ottla streams reset begins anew)"
        )


def _number(name: str) -> int:
    return int(name.removeprefix(BATCHES).removesuffix(".json"))
