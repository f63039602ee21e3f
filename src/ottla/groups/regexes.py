"""The topics that the regular expressions of a group match; names are looked up in slices.

A run sees the topics that the member sees whose heartbeat began it (KIP-848); the result serves the whole group.

A run takes one regular expression after the other and goes over all topic names with each. Every slice of names is a
step of its own, and compiles one expression at most: a group may have as many of them as members, and no group may keep
the others waiting. Its result is written as records; if it differs from the one before, the group begins a new epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.groups import consumer_entries as write
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_steps import Trial
from ottla.groups.consumer_values import ResolvedRegex
from ottla.groups.deadlines import DeadlineKey, DeadlineKind, KeyedDeadlines
from ottla.groups.topics import Topics
from ottla.groups.values import GroupDecision, Moment
from ottla.kernel.patterns import BadPattern, Matcher, compile_pattern

REST_MS = 10_000
"""The pause of a group between two runs, unless a member brings a new regular expression."""
_NAMES_PER_TURN = 20


@dataclass(slots=True)
class _Run:
    """One run: the expressions left, of which the last is matched now, its place in the names, and the matches."""

    version: int
    names: tuple[str, ...]
    left: list[str]
    matches: Matcher | None = None
    place: int = 0
    matched: dict[str, list[str]] = field(default_factory=dict)


class RegexRuns:
    """The runs of one shard's groups: at most one for each group at a time."""

    def __init__(self, deadlines: KeyedDeadlines, topics: Topics, refresh_interval_ms: int) -> None:
        self._deadlines = deadlines
        self._topics = topics
        self._refresh_interval_ms = refresh_interval_ms
        self._running: dict[str, _Run] = {}
        self._seen: dict[str, Matcher] = {}
        """The topics that a run may match, by the member that began it."""
        self._ended: dict[str, tuple[int, int]] = {}
        """The time of a group's last run, and the version of the topics that it looked at."""

    def want(self, group_id: str, sees: Matcher, now: Moment) -> None:
        """Begin a run now, unless one is under way."""
        key = DeadlineKey(DeadlineKind.REGEX, group_id)
        if self._deadlines.at(key) is None:
            self._seen[group_id] = sees
            self._deadlines.set(key, now.mono_ms)

    def is_due(self, group: ConsumerGroup, now: Moment) -> bool:
        """True if the topics have changed since the last run, or it was long ago; never within the pause after one."""
        if not group.regexes or group.group_id in self._running:
            return False
        if group.group_id not in self._ended:
            return True
        ended_ms, version = self._ended[group.group_id]
        since_ms = now.mono_ms - ended_ms
        return since_ms >= (self._refresh_interval_ms if version == self._topics.version else REST_MS)

    def go_on(self, group: ConsumerGroup, now: Moment, out: GroupDecision) -> None:
        """Match the next names; after the last one write the matches."""
        run = self._running.get(group.group_id)
        if run is None:
            run = self._running[group.group_id] = self._begin(group)
        _step(run, self._seen[group.group_id])
        if run.left:
            self._deadlines.set(DeadlineKey(DeadlineKind.REGEX, group.group_id), now.mono_ms)
            return
        del self._running[group.group_id]
        self._ended[group.group_id] = (now.mono_ms, run.version)
        self._write(group, run, now, out)
        if any(regex not in run.matched for regex in group.used_regexes()):
            self._deadlines.set(DeadlineKey(DeadlineKind.REGEX, group.group_id), now.mono_ms)

    def forget(self, group_id: str) -> None:
        self._deadlines.cancel(DeadlineKey(DeadlineKind.REGEX, group_id))
        self._running.pop(group_id, None)
        self._seen.pop(group_id, None)
        self._ended.pop(group_id, None)

    def _begin(self, group: ConsumerGroup) -> _Run:
        return _Run(self._topics.version, tuple(self._topics.names()), sorted(group.used_regexes(), reverse=True))

    def _write(self, group: ConsumerGroup, run: _Run, now: Moment, out: GroupDecision) -> None:
        """Write the matches for members that still subscribe, and a new epoch where they change their topics."""
        trial = Trial(group)
        for regex, names in run.matched.items():
            if not group.regex_users(regex):
                continue
            before = group.regexes.get(regex)
            topics = frozenset(names)
            if before is None or before.topics != topics:
                trial.write(write.regex_entry(group.group_id, regex, ResolvedRegex(topics, run.version, now.wall_ms)))
        if trial.entries:
            trial.bump(self._topics)
        for entry in trial.entries:
            out.write(entry)


def _step(run: _Run, sees: Matcher) -> None:
    """Match the next names with one of the expressions."""
    if not run.left:
        return
    regex = run.left[-1]
    if run.matches is None:
        run.matches = _compiled(regex)
    names = run.names[run.place : run.place + _NAMES_PER_TURN]
    run.place += len(names)
    run.matched.setdefault(regex, []).extend(name for name in names if run.matches(name) and sees(name))
    if run.place >= len(run.names):
        run.left.pop()
        run.matches, run.place = None, 0


def _compiled(regex: str) -> Matcher:
    """Compile a pattern of the log; one that does not compile here, from another release, matches nothing."""
    try:
        return compile_pattern(regex)
    except BadPattern:
        return _nothing


def _nothing(name: str) -> bool:
    return False
