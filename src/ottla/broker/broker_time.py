"""The time for everything that goes by age in a broker: retention, expiry of offsets, ids and producers, tombstones.

The machine is kernel/trusted_time.py. Its witnesses come together here: the clocks, the notes in the log directories,
other brokers (control/clock_rounds.py), and an administrator's word, which is an option of all brokers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.times import duration_text, utc_text
from ottla.kernel.trusted_time import SMALL_MS, Doubt, TrustedTime, agreed
from ottla.storage.directory.clock_note import ClockNote, read_notes, write_note
from ottla.storage.values import FULL_DISK

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.kernel.seams import Clock, Disk
    from ottla.storage.directory.directory import LogDirectory

log = logging.getLogger("ottla.clock")
_NOTE_EVERY_MS = 60_000
_CALM = Doubt(0, 0)


class Uptime(NamedTuple):
    """The time for which the machine has been up, suspended or not, and the id of this boot."""

    boot: str
    ms: int


def no_uptime() -> Uptime | None:
    """Tell of no uptime: the monotonic clock alone measures the time of this run."""
    return None


class ToldClock(NamedTuple):
    """The clock of another broker."""

    proven_ms: int
    witness: bool
    settled: bool
    calm: bool
    """True if its clock is not in doubt."""


class BrokerTime:
    """The trusted time of one broker. `begin` is called before anything is opened, `look` in every round."""

    def __init__(self, clock: Clock, config: Callable[[], BrokerConfig], uptime: Callable[[], Uptime | None]) -> None:
        self._clock = clock
        self._config = config
        self._uptime = uptime
        self._boot, self._suspended_ms = "", 0
        """The id of the boot, and what the uptime has that the monotonic clock does not."""
        self._look_at_uptime()
        self._accepted_ms = -1
        self._noted_ms = -1
        self._said = _CALM
        self._trusted = TrustedTime(clock.wall_ms(), self._mono_ms())

    def _look_at_uptime(self) -> None:
        up = self._uptime()
        if up is not None and self._boot in ("", up.boot):
            self._boot, self._suspended_ms = up.boot, up.ms - self._clock.mono_ms()

    def _mono_ms(self) -> int:
        """The monotonic clock, and the time in which it stood still while the machine was suspended."""
        return self._clock.mono_ms() + self._suspended_ms

    def begin(self, disk: Disk, directories: Sequence[str], *, others: bool) -> None:
        """Compare the clock with the last notes. `others`: the cluster has other brokers, who know the time."""
        note, faults = read_notes(disk, directories)
        for fault in faults:
            log.warning("a note of the time is not used: %s", fault)
        wall_ms, mono_ms = self._clock.wall_ms(), self._mono_ms()
        if note is None:
            self._trusted = TrustedTime(wall_ms, mono_ms)
            self._trusted.settled = not others
            return
        self._accepted_ms = note.accepted_ms
        passed_ms = mono_ms - note.uptime_ms if self._boot and note.boot == self._boot else 0
        self._trusted = TrustedTime(wall_ms, mono_ms, note.time, passed_ms=max(passed_ms, 0))
        self._say()

    # --- what is asked ---

    def aged(self, retention_ms: int) -> int:
        """The time of day by which something of this retention has an age: never later than is proven."""
        return self._trusted.aged(retention_ms, self._clock.wall_ms(), self._mono_ms())

    @property
    def doubt(self) -> Doubt:
        return self._trusted.doubt

    def as_json(self) -> str:
        """For `ottla doctor`, `ottla clock` and other brokers, by DescribeConfigs."""
        self.look()
        doubt = self._trusted.doubt
        return json.dumps(
            {
                "wall_ms": self._clock.wall_ms(),
                "proven_ms": self._trusted.proven_ms,
                "ahead_ms": doubt.ahead_ms,
                "behind_ms": doubt.behind_ms,
                "settled": self._trusted.settled,
                "calm": doubt == _CALM,
                "witness": self._trusted.is_witness,
            },
            separators=(",", ":"),
        )

    # --- rounds ---

    def look(self) -> None:
        """Compare the clocks, and take an administrator's new word."""
        self._look_at_uptime()
        self._trusted.look(self._clock.wall_ms(), self._mono_ms())
        accepted_ms = self._config().ottla_clock_accepted_ms
        if accepted_ms not in (-1, self._accepted_ms):
            self._accepted_ms = accepted_ms
            self._trusted.accept(accepted_ms)
            log.info("an administrator says that it is %s", utc_text(accepted_ms))
        self._say()

    def _say(self) -> None:
        """One warning when the clock comes into doubt, one line when the doubt has ended."""
        doubt, before = self._trusted.doubt, self._said
        if doubt == _CALM:
            if before != _CALM:
                log.warning("the clock of this machine is not in doubt any more")
        elif abs(doubt.ahead_ms - before.ahead_ms) >= SMALL_MS or abs(doubt.behind_ms - before.behind_ms) >= SMALL_MS:
            self._warn(doubt)
        else:
            return
        self._said = doubt

    def _warn(self, doubt: Doubt) -> None:
        wall_ms, proven_ms = self._clock.wall_ms(), self._trusted.proven_ms
        if doubt.ahead_ms:
            log.warning(
                "the clock of this machine says %s, %s later than is proven (%s: the last note of this broker, the "
                "time that it has run since, other brokers). Records, offsets, producers, ids and tombstones "
                "are deleted by the proven time until another witness agrees. If the clock is right, run `ottla clock "
                "accept`; if not, set it.",
                utc_text(wall_ms), duration_text(doubt.ahead_ms), utc_text(proven_ms),
            )  # fmt: skip
        else:
            log.warning(
                "the clock of this machine says %s, %s earlier than it was known to be here (%s). Nothing is deleted "
                "early; records of producers whose clocks are right may be refused as too new. Set the clock; if it is "
                "right, run `ottla clock accept`.",
                utc_text(wall_ms), duration_text(doubt.behind_ms), utc_text(proven_ms),
            )  # fmt: skip

    def note(self, directories: Sequence[LogDirectory], *, at_once: bool = False) -> None:
        """Leave a note in each of these directories. A full disk keeps the older one, which proves less."""
        now_ms = self._clock.mono_ms()
        if not at_once and self._noted_ms >= 0 and now_ms - self._noted_ms < _NOTE_EVERY_MS:
            return
        self._noted_ms = now_ms
        note = ClockNote(self._trusted.note(), self._boot, self._mono_ms() if self._boot else -1, self._accepted_ms)
        for directory in directories:
            if directory.failed is None:
                try:
                    write_note(directory.disk, directory.path, note)
                except OSError as fault:
                    if fault.errno not in FULL_DISK:
                        raise

    # --- other brokers ---

    @property
    def needs_others(self) -> bool:
        return not self._trusted.settled or bool(self._trusted.doubt.ahead_ms)

    def told(self, times: Sequence[ToldClock], others: int) -> None:
        """Take what other brokers say, if more than half of them agree.

        A new broker also believes brokers that are new, and does not wait for those that know no more than it does.
        """
        new = not self._trusted.settled
        if new:
            others -= sum(not each.settled for each in times)
        known = [each.proven_ms for each in times if each.calm and (each.witness or (new and each.settled))]
        time_ms = agreed(known, others)
        if time_ms is None:
            return
        if new:
            self._trusted.settle(time_ms)
        else:
            self._trusted.vouch(time_ms)
        self._say()
