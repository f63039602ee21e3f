"""The rounds of a lake: those that are kept, and the sum of those that were forgotten. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ottla.lake.columns.windows import Tallies, Tally, added_by_topic, tallies_from_json, window_of
from ottla.lake.notes.plans import FORMAT, Commit, Publication, check_format
from ottla.rows.plan import Offsets, flat, nested


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The rounds whose plans and publications are gone: where the lake stood after them, and their records."""

    commit: Commit = field(default_factory=Commit)
    windows: Tallies = field(default_factory=dict)
    lost: Offsets = field(default_factory=dict)
    """The offsets of each partition that retention took before these rounds could load them."""

    def to_json(self) -> dict[str, object]:
        windows = {topic: tally.to_json() for topic, tally in self.windows.items()}
        return {"format": FORMAT, "commit": self.commit.to_json(), "windows": windows, "lost": nested(self.lost)}

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Forgotten:
        check_format(stored)
        commit = stored["commit"]
        assert isinstance(commit, dict)
        return cls(Commit.from_json(commit), tallies_from_json(stored["windows"]), flat(stored.get("lost", {})))

    def and_also(self, rounds: Iterable[Publication], stood: Commit) -> Forgotten:
        """These rounds and the next ones, after which the lake stood there."""
        given, lost = list(rounds), dict(self.lost)
        for each in given:
            for partition, offsets in each.plan.lost.items():
                lost[partition] = lost.get(partition, 0) + offsets
        return Forgotten(stood, added_by_topic([self.windows, *(each.windows for each in given)]), lost)


@dataclass(frozen=True, slots=True)
class History:
    """All rounds of a lake up to its commit."""

    committed: Commit
    forgotten: Forgotten | None
    """None if rounds were forgotten before their sum was kept."""
    rounds: tuple[Publication, ...]
    """The rounds after the forgotten ones, in order."""
    begun: tuple[Commit, ...] = ()
    """The commits among those rounds that no round made: they say where new topics begin."""

    def windows(self) -> dict[str, Tally]:
        """All records of each topic by window, as far as they are known."""
        forgotten = self.forgotten.windows if self.forgotten is not None else {}
        return added_by_topic([forgotten, *(each.windows for each in self.rounds)])

    def late(self) -> dict[str, Tally]:
        """The records of the kept rounds that came for windows that were complete already when their round began."""
        return added_by_topic(self._late_by_round())

    def _late_by_round(self) -> Iterator[Tallies]:
        stands = self.forgotten.commit if self.forgotten is not None else Commit()
        for publication in self.rounds:
            yield late_of(publication, stands)
            stands = stands.after(publication)


def late_of(publication: Publication, before: Commit) -> dict[str, Tally]:
    """The records of a round in windows that ended before the lake's time of complete-through."""
    through = complete_through(before)
    return {
        topic: tally.before(window_of(through[topic]))
        for topic, tally in publication.windows.items()
        if topic in through
    }


def complete_through(commit: Commit) -> dict[str, int]:
    """By topic, the least greatest event time of the partitions that brought records, in microseconds."""
    through: dict[str, int] = {}
    for partition, time in commit.latest.items():
        through[partition.topic] = min(time, through.get(partition.topic, time))
    return through
