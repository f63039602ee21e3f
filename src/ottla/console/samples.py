"""The course of rates and lags over the last hour. Pure: the looks are taken elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

KEPT = 720
"""Points of a course: an hour at a look every five seconds."""
MOST_COURSES = 2_000
"""Topics and groups beyond so many have a number and no course."""


class Courses:
    """Named courses of numbers, each at most KEPT long."""

    def __init__(self) -> None:
        self._courses: dict[str, deque[float]] = {}

    def add(self, name: str, value: float) -> None:
        """Put a value at the end of a course."""
        if name not in self._courses and len(self._courses) >= MOST_COURSES:
            return
        self._courses.setdefault(name, deque(maxlen=KEPT)).append(value)

    def keep(self, prefix: str, names: set[str]) -> None:
        """Forget the courses with this prefix that are not among the names."""
        for name in [each for each in self._courses if each.startswith(prefix) and each not in names]:
            del self._courses[name]

    def of(self, name: str, last: int = 120) -> list[float]:
        """The last points of a course; none where there is none."""
        return list(self._courses.get(name, ()))[-last:]


class Samples:
    """Looks at the ends of topics and the lags of groups, one after the other."""

    def __init__(self) -> None:
        self.courses = Courses()
        self.topic_rates: dict[str, float] = {}
        """Records per second that were appended between the last two looks."""
        self.lags: dict[str, int] = {}
        self._ends: Mapping[str, int] = {}
        self._at_ms = 0.0

    def look(self, at_ms: float, ends: Mapping[str, int], lags: Mapping[str, int]) -> None:
        """Take the sums of the end offsets by topic, and the lags by group, as they are now.

        A topic whose ends went back was made anew; it has no rate until the next look.
        """
        seconds = (at_ms - self._at_ms) / 1000
        if self._at_ms and seconds > 0:
            self.topic_rates = {
                topic: (end - self._ends[topic]) / seconds
                for topic, end in ends.items()
                if topic in self._ends and end >= self._ends[topic]
            }
            self.courses.add("records", sum(self.topic_rates.values()))
            self.courses.keep("topic:", {f"topic:{topic}" for topic in ends})
            for topic, rate in self.topic_rates.items():
                self.courses.add(f"topic:{topic}", rate)
        self.lags = dict(lags)
        self.courses.add("lag", sum(lags.values()))
        self.courses.keep("group:", {f"group:{group}" for group in lags})
        for group, lag in lags.items():
            self.courses.add(f"group:{group}", lag)
        self._ends, self._at_ms = dict(ends), at_ms
