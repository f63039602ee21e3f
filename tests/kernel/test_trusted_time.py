"""The time by which things age never runs ahead of what a second witness of the clock has shown (rule B9)."""

from __future__ import annotations

import pytest

from ottla.kernel.trusted_time import SMALL_MS, WITNESS_AFTER_MS, Doubt, TimeNote, TrustedTime, agreed

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
YEAR_MS = 365 * DAY_MS
WEEK_MS = 7 * DAY_MS
T0 = 1_700_000_000_000


class Machine:
    """A wall clock and a monotonic one; the broker looks at both every ten seconds, or once an hour at most."""

    def __init__(self, note: TimeNote | None = None, wall_ms: int = T0, passed_ms: int = 0) -> None:
        self.wall_ms, self.mono_ms = wall_ms, 0
        self.trusted = TrustedTime(wall_ms, 0, note, passed_ms=passed_ms)

    def run(self, milliseconds: int, *, every_ms: int = HOUR_MS, gains: float = 0) -> None:
        """Let time pass; the clock gains this share of it."""
        for at in range(0, milliseconds, every_ms):
            passed = min(every_ms, milliseconds - at)
            self.mono_ms += passed
            self.wall_ms += passed + int(passed * gains)
            self.trusted.look(self.wall_ms, self.mono_ms)

    def set(self, by_ms: int) -> None:
        self.wall_ms += by_ms

    def aged(self, retention_ms: int = WEEK_MS) -> int:
        """By how much the time of this age differs from the first time that this machine showed."""
        return self.trusted.aged(retention_ms, self.wall_ms, self.mono_ms) - T0

    def started_again(self, *, off_ms: int = 0, ahead_ms: int = 0, passed_ms: int = 0) -> Machine:
        """The next run, after the machine was off for so long, and its clock was moved by so much."""
        self.trusted.look(self.wall_ms, self.mono_ms)
        return Machine(self.trusted.note(), self.wall_ms + off_ms + ahead_ms, passed_ms)


def test_where_no_clock_jumps_the_time_is_that_of_the_wall_clock():
    machine = Machine()
    machine.run(30 * DAY_MS)
    assert machine.aged() == 30 * DAY_MS and machine.trusted.doubt == Doubt(0, 0)


@pytest.mark.parametrize("jump_ms", [DAY_MS, 30 * DAY_MS, YEAR_MS])
@pytest.mark.parametrize("at_start", [True, False])
def test_a_clock_that_is_far_ahead_makes_nothing_older_until_time_has_passed(jump_ms: int, at_start: bool):
    machine = Machine()
    if at_start:
        machine = machine.started_again(ahead_ms=jump_ms)
    else:
        machine.set(jump_ms)
    assert machine.aged() == 0
    machine.run(WEEK_MS)
    assert machine.aged() == WEEK_MS, "what is old by the monotonic clock still goes"
    assert machine.trusted.doubt == Doubt(jump_ms, 0)


@pytest.mark.parametrize("at_start", [True, False])
def test_a_clock_that_is_set_back_makes_nothing_older_and_is_said(at_start: bool):
    machine = Machine()
    if at_start:
        machine = machine.started_again(ahead_ms=-DAY_MS)
    else:
        machine.set(-DAY_MS)
    assert machine.aged() == -DAY_MS
    assert machine.trusted.doubt == Doubt(0, DAY_MS)


def test_a_jump_before_the_first_look_is_seen_too():
    """A machine is judged from its note on, and not from its first look."""
    machine = Machine(TimeNote(T0, 0), T0 + 30 * DAY_MS)
    assert machine.aged() == 0


def test_the_clock_that_is_set_right_again_ends_the_doubt():
    machine = Machine()
    machine.set(30 * DAY_MS)
    machine.run(HOUR_MS)
    machine.set(-30 * DAY_MS)
    assert machine.aged() == HOUR_MS and machine.trusted.doubt == Doubt(0, 0)


def test_what_was_written_while_the_clock_was_behind_does_not_go_early_when_it_is_right_again():
    machine = Machine()
    machine.set(-3 * DAY_MS)
    machine.run(DAY_MS)
    written_ms = machine.wall_ms - T0
    machine.set(3 * DAY_MS)
    machine.run(WEEK_MS - HOUR_MS)
    assert machine.aged() - written_ms < WEEK_MS
    assert machine.trusted.doubt == Doubt(0, 0), "the clock is right: nobody needs to be told"
    machine.run(HOUR_MS)
    assert machine.aged() - written_ms >= WEEK_MS


def test_the_time_that_a_machine_was_off_is_taken_on_its_clocks_word_up_to_a_tenth_of_the_retention():
    machine = Machine().started_again(off_ms=12 * HOUR_MS)
    assert machine.aged(WEEK_MS) == 12 * HOUR_MS
    assert machine.aged(DAY_MS) == 0


def test_nights_without_power_do_not_add_up_for_a_long_retention():
    machine = Machine()
    for _ in range(60):
        machine.run(12 * HOUR_MS)
        machine = machine.started_again(off_ms=12 * HOUR_MS)
    assert machine.aged(WEEK_MS) == 60 * DAY_MS


@pytest.mark.parametrize("often", [2, 20])
def test_many_starts_one_after_the_other_are_one_step(often: int):
    machine = Machine()
    for _ in range(often):
        machine = machine.started_again(ahead_ms=12 * HOUR_MS)
        machine.run(MINUTE_MS)
    assert machine.aged(WEEK_MS) == often * MINUTE_MS


def test_a_clock_that_runs_fast_cannot_hide_in_small_steps():
    machine = Machine()
    machine.run(DAY_MS, every_ms=10 * SECOND_MS, gains=3)
    assert machine.aged(WEEK_MS) == DAY_MS


def test_a_clock_that_is_being_corrected_is_followed():
    machine = Machine()
    machine.run(WEEK_MS, every_ms=10 * SECOND_MS, gains=0.0005)
    assert machine.aged(HOUR_MS) == machine.wall_ms - T0


def test_the_uptime_of_the_machine_vouches_for_the_time_that_the_broker_was_down():
    machine = Machine().started_again(off_ms=30 * DAY_MS, passed_ms=30 * DAY_MS)
    assert machine.aged() == 30 * DAY_MS and machine.trusted.doubt == Doubt(0, 0)


def test_an_uptime_of_seconds_shows_that_a_clock_has_jumped_between_two_runs():
    machine = Machine().started_again(off_ms=5 * SECOND_MS, passed_ms=5 * SECOND_MS, ahead_ms=YEAR_MS)
    assert machine.aged() == 5 * SECOND_MS


def test_a_small_gap_counts_for_short_retentions_until_one_has_passed():
    machine = Machine().started_again(off_ms=MINUTE_MS)
    assert machine.aged(5 * MINUTE_MS) == 0 and machine.trusted.doubt == Doubt(0, 0)
    machine.run(5 * MINUTE_MS, every_ms=10 * SECOND_MS)
    assert machine.aged(5 * MINUTE_MS) == 6 * MINUTE_MS


def test_doubts_last_over_restarts():
    machine = Machine()
    machine.set(30 * DAY_MS)
    for _ in range(3):
        machine = machine.started_again()
        machine.run(HOUR_MS)
    assert machine.aged() == 3 * HOUR_MS and machine.trusted.doubt == Doubt(30 * DAY_MS, 0)


def test_an_administrator_who_accepts_the_clock_ends_the_doubt():
    machine = Machine().started_again(off_ms=30 * DAY_MS)
    machine.trusted.accept(machine.wall_ms - MINUTE_MS)
    assert machine.aged() == 30 * DAY_MS and machine.trusted.doubt == Doubt(0, 0)


def test_an_administrator_who_accepts_another_time_proves_that_much_and_no_more():
    machine = Machine().started_again(off_ms=30 * DAY_MS)
    machine.trusted.accept(T0 + 10 * DAY_MS)
    assert machine.aged() == 10 * DAY_MS and machine.trusted.doubt == Doubt(20 * DAY_MS, 0)


def test_an_administrator_may_accept_an_earlier_time():
    machine = Machine()
    machine.set(-DAY_MS)
    machine.trusted.look(machine.wall_ms, machine.mono_ms)
    machine.trusted.accept(machine.wall_ms)
    assert machine.aged() == -DAY_MS and machine.trusted.doubt == Doubt(0, 0)


def test_other_brokers_that_agree_with_the_clock_end_the_doubt():
    machine = Machine().started_again(off_ms=30 * DAY_MS)
    machine.trusted.vouch(machine.wall_ms - 20)
    assert machine.aged() == 30 * DAY_MS and machine.trusted.doubt == Doubt(0, 0)


def test_other_brokers_that_do_not_agree_leave_the_doubt_as_it_is():
    machine = Machine().started_again(ahead_ms=30 * DAY_MS)
    machine.trusted.vouch(T0 + 20)
    assert machine.aged() == 20 and machine.trusted.doubt == Doubt(30 * DAY_MS - 20, 0)


def test_a_clock_that_is_behind_what_other_brokers_say_is_said():
    machine = Machine().started_again(off_ms=MINUTE_MS)
    machine.trusted.vouch(machine.wall_ms + DAY_MS)
    assert machine.trusted.doubt == Doubt(0, DAY_MS)
    assert machine.aged() == MINUTE_MS


def test_nothing_has_an_age_for_a_new_broker_that_has_not_heard_the_time():
    machine = Machine(wall_ms=T0 + YEAR_MS)
    machine.trusted.settled = False
    assert machine.trusted.aged(0, machine.wall_ms, machine.mono_ms) == 0
    machine.trusted.settle(T0)
    assert machine.aged() == 0 and machine.trusted.doubt == Doubt(YEAR_MS, 0)


def test_a_new_broker_is_no_witness_for_a_day():
    machine = Machine()
    machine.run(WITNESS_AFTER_MS - HOUR_MS)
    assert not machine.trusted.is_witness
    machine.run(HOUR_MS)
    assert machine.trusted.is_witness


def test_more_than_half_of_the_others_must_agree():
    assert agreed([], 1) is None
    assert agreed([5], 1) == 5
    assert agreed([5], 2) is None
    assert agreed([5, 9], 2) == 5
    assert agreed([9, 5, 7], 4) == 5
    assert agreed([], 0) is None


def test_a_note_tells_the_next_run_all_that_this_one_knows():
    machine = Machine()
    machine.run(DAY_MS)
    machine.set(WEEK_MS)
    machine.run(2 * HOUR_MS)
    machine.set(SMALL_MS // 2)
    machine.run(2 * HOUR_MS)
    again = machine.started_again()
    assert again.trusted.note() == machine.trusted.note()
    assert again.trusted.proven_ms == machine.trusted.proven_ms
