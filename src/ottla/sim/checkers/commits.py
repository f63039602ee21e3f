"""The third judge: a group is told the offset that it committed last."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import Anomaly, CommitAsked, CommitDone, CommitSeen, History, LogKey

_NOTHING = -1


class _Place:
    """One group's commits for one log.

    Each group here has one client that commits, one at a time; another may read them.
    """

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = [(0, _NOTHING)]
        """Acknowledged commits, with their times."""
        self.unknown: list[int] = []
        """Commits that may have happened or may yet happen."""

    def held_at(self, at_us: int) -> int:
        """The last commit that was acknowledged before that time."""
        return next(offset for done_us, offset in reversed(self.done) if done_us <= at_us)

    def may_be_told(self, offset: int, asked_us: int) -> bool:
        """True if the offset was the committed one at the time of the request, or was committed since then."""
        since = [each for done_us, each in self.done if done_us > asked_us]
        return offset == self.held_at(asked_us) or offset in since or offset in self.unknown


def check_commits(history: History) -> Iterator[Anomaly]:
    """Anomalies of committed offsets."""
    places: dict[tuple[str, LogKey], _Place] = {}
    for event in history.events:
        if not isinstance(event, CommitAsked | CommitDone | CommitSeen):
            continue
        place = places.setdefault((event.group, event.log), _Place())
        if isinstance(event, CommitAsked):
            place.unknown.append(event.offset)
        elif isinstance(event, CommitDone):
            place.done.append((event.at_us, event.offset))
            place.unknown.remove(event.offset)
        elif not place.may_be_told(event.offset, event.asked_us):
            name, held = history.name(event.log), place.held_at(event.asked_us)
            kind = "lost-commit" if event.offset < held else "phantom-commit"
            yield Anomaly(kind, f"{name}: group {event.group} is told {event.offset}, and had committed {held}")
