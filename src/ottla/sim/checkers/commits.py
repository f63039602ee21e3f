"""The third judge: what a group committed is what it is told, until it commits again."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import Anomaly, CommitAsked, CommitDone, CommitSeen, History, LogKey

_NOTHING = -1


class _Place:
    """One group's commits for one log. Each group here has one client, which commits one at a time."""

    def __init__(self) -> None:
        self.held: int = _NOTHING
        """The last commit that was acknowledged."""
        self.unknown: list[int] = []
        """Commits that may have happened or may yet happen."""


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
            place.held = event.offset
            place.unknown.remove(event.offset)
        elif event.offset != place.held and event.offset not in place.unknown:
            name = history.name(event.log)
            kind = "lost-commit" if event.offset < place.held else "phantom-commit"
            yield Anomaly(kind, f"{name}: group {event.group} is told {event.offset}, and had committed {place.held}")
