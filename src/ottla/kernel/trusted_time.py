"""The time by which records, offsets and ids age: the wall clock, less the steps for which it has no second witness.

Pure. Witnesses are the monotonic clock, the note of the last run, other brokers, and an administrator. The broker asks
them in `broker/broker_time.py`. Time that nobody vouches for makes deletion late, never early (rule B9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

TimeFor = Callable[[int], int]
"""The time of day by which things of a given retention in ms have an age."""

SMALL_MS = 10 * 60_000
"""Clocks that differ by less agree. A smaller step without a witness is no reason for a warning."""
WITNESS_AFTER_MS = 24 * 3_600_000
"""A new broker vouches for others once it has run for so long: until then its time is the word of its clock alone."""
_ONE_STEP_MS = 3_600_000
"""Steps with less running time between them count as one: a clock that runs fast cannot hide in many small steps."""
_MOST_STEPS = 500
_LOOK_MS = 1000
_SLEW = 1000
"""A clock that is being corrected runs fast or slow by less than one part in so many."""
_SHARE = 10
"""A step of at most a tenth of the retention is taken on the word of the clock (rule B9)."""


class ClockStep(NamedTuple):
    """The wall clock went ahead of the monotonic one, and nobody has vouched for it yet."""

    size_ms: int
    at_ms: int
    """The running time at which it was last seen to grow."""
    returned: bool
    """True if the clock was behind before: it is right now, but what was written meanwhile looks older than it is."""


class TimeNote(NamedTuple):
    """The time as a run of the broker leaves it for the next one."""

    wall_ms: int
    running_ms: int
    behind_ms: int = 0
    steps: tuple[ClockStep, ...] = ()
    settled: bool = True


class Doubt(NamedTuple):
    """The distance of the wall clock from the time that is proven. Both are 0 where nothing is in doubt."""

    ahead_ms: int
    behind_ms: int


class TrustedTime:
    """One broker's. Without a note the wall clock counts as it is: the log directories are new."""

    def __init__(self, wall_ms: int, mono_ms: int, note: TimeNote | None = None, *, passed_ms: int = 0) -> None:
        """`passed_ms`: the time since the note as far as the monotonic clock tells, which may be no time at all."""
        self.settled = note is None or note.settled
        """False while a new broker has not heard the time from the others: nothing has an age until then."""
        self._mono_ms = mono_ms - passed_ms
        if note is None:
            note = TimeNote(wall_ms - passed_ms, 0)
        self._wall_ms, self._running_ms, self._behind_ms = note.wall_ms, note.running_ms, note.behind_ms
        self._steps = list(note.steps)
        self._account(wall_ms, mono_ms)

    def look(self, wall_ms: int, mono_ms: int) -> None:
        """Compare the clocks with what they showed before. Readings that are close together are compared later."""
        passed = mono_ms - self._mono_ms
        if passed >= _LOOK_MS or abs(wall_ms - self._wall_ms - passed) >= _LOOK_MS:
            self._account(wall_ms, mono_ms)

    def _account(self, wall_ms: int, mono_ms: int) -> None:
        passed = max(mono_ms - self._mono_ms, 0)
        moved = wall_ms - self._wall_ms - passed
        self._wall_ms, self._mono_ms = wall_ms, mono_ms
        self._running_ms += passed
        if moved > 1 + passed // _SLEW:
            self._went_ahead(moved)
        elif moved < -1 - passed // _SLEW:
            self._went_back(-moved)
        self._steps = [step for step in self._steps if not self._is_over(step)]

    def _went_ahead(self, size_ms: int) -> None:
        regained = min(size_ms, self._behind_ms)
        self._behind_ms -= regained
        self._add(regained, returned=True)
        self._add(size_ms - regained, returned=False)

    def _add(self, size_ms: int, *, returned: bool) -> None:
        """Note a step, together with the last one of its kind where that was a short time ago."""
        if not size_ms:
            return
        for at in reversed(range(len(self._steps))):
            last = self._steps[at]
            if last.returned == returned and self._running_ms - last.at_ms < _ONE_STEP_MS:
                self._steps[at] = ClockStep(last.size_ms + size_ms, self._running_ms, returned)
                return
        self._steps.append(ClockStep(size_ms, self._running_ms, returned))
        if len(self._steps) > _MOST_STEPS:  # two as one count for longer retentions: deletion is later
            first, second, *rest = self._steps
            joined = ClockStep(first.size_ms + second.size_ms, second.at_ms, first.returned and second.returned)
            self._steps = [joined, *rest]

    def _went_back(self, size_ms: int) -> None:
        """Take back steps without a witness, the newest first; then the clock is behind the proven time."""
        for at in reversed(range(len(self._steps))):
            step = self._steps[at]
            if size_ms and not step.returned:
                taken = min(size_ms, step.size_ms)
                size_ms -= taken
                self._steps[at] = step._replace(size_ms=step.size_ms - taken)
        self._behind_ms += size_ms

    def _passes(self, step: ClockStep) -> bool:
        """True if a step needs no witness once a whole retention has passed since."""
        return step.returned or step.size_ms < SMALL_MS

    def _is_over(self, step: ClockStep) -> bool:
        """True if no retention is concerned any more, long or short."""
        since = self._running_ms - step.at_ms
        return not step.size_ms or (self._passes(step) and since >= max(step.size_ms * _SHARE, _ONE_STEP_MS))

    # --- what is asked ---

    def aged(self, retention_ms: int, wall_ms: int, mono_ms: int) -> int:
        """The time by which something of this retention has an age."""
        self.look(wall_ms, mono_ms)
        return wall_ms - self._lag_ms(retention_ms) if self.settled else 0

    def _lag_ms(self, retention_ms: int) -> int:
        return sum(
            step.size_ms
            for step in self._steps
            if step.size_ms > retention_ms // _SHARE
            and not (self._passes(step) and self._running_ms - step.at_ms >= retention_ms)
        )

    @property
    def proven_ms(self) -> int:
        """The time at the last look, without any step that lacks a witness."""
        return self._wall_ms + self._behind_ms - sum(step.size_ms for step in self._steps if not step.returned)

    @property
    def doubt(self) -> Doubt:
        """Without steps that are too small for a warning."""
        ahead = sum(step.size_ms for step in self._steps if not self._passes(step))
        return Doubt(ahead, self._behind_ms if self._behind_ms >= SMALL_MS else 0)

    @property
    def is_witness(self) -> bool:
        """True if this broker may tell others what time it is."""
        return self.settled and self._running_ms >= WITNESS_AFTER_MS

    def note(self) -> TimeNote:
        return TimeNote(self._wall_ms, self._running_ms, self._behind_ms, tuple(self._steps), self.settled)

    # --- what other witnesses say ---

    def vouch(self, least_ms: int) -> None:
        """Another witness says that it is `least_ms` or later."""
        if least_ms <= self.proven_ms:
            return
        rest = self._wall_ms - least_ms
        self._behind_ms = max(-rest, 0)
        self._steps = [step for step in self._steps if step.returned]
        self._add(max(rest, 0), returned=False)

    def accept(self, time_ms: int) -> None:
        """An administrator says that it is `time_ms`: a wall clock that agrees counts as it is."""
        if abs(self._wall_ms - time_ms) < SMALL_MS:
            self._behind_ms, self.settled = 0, True
            self._steps = [step for step in self._steps if step.returned]
        else:
            self.vouch(time_ms)

    def settle(self, time_ms: int) -> None:
        """The other brokers have told a new one what time it is. It is a witness as they are from now on."""
        ahead = self._wall_ms - time_ms
        self._steps, self._behind_ms = [], 0
        if abs(ahead) >= SMALL_MS:
            self._add(max(ahead, 0), returned=False)
            self._behind_ms = max(-ahead, 0)
        self._running_ms = max(self._running_ms, WITNESS_AFTER_MS)
        self.settled = True


def agreed(told_ms: Sequence[int], others: int) -> int | None:
    """The time that more than half of `others` brokers say has come; None where too few have told theirs.

    One broker of two others is not enough: its clock alone may be wrong.
    """
    needed = others // 2
    return sorted(told_ms, reverse=True)[needed] if len(told_ms) > needed else None
