"""The life of a job, told to the machine."""

from __future__ import annotations

import random

import pytest

from ottla.jobs.states import TRANSITIONS, Effect, Event, Job, JobFault, JobState, OutOfTurn, RestartPolicy

AWAY = JobFault("no broker answers", "trace", may_pass=True)
WRONG = JobFault("there is no such column", "trace")
WISHES = (Event.PAUSE, Event.RESUME, Event.STOP, Event.RESTART)
CONNECTS_NAMES = {"UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING"}


def a_running_job(policy: RestartPolicy | None = None) -> Job:
    job = Job(policy, now_ms=0)
    assert job.tell(Event.RESUME, 0) is Effect.BEGIN
    assert job.tell(Event.BEGAN, 0) is None
    return job


def test_every_state_has_a_name_of_kafka_connect_and_all_those_names_are_used() -> None:
    assert {state.connect_name for state in JobState} == CONNECTS_NAMES
    for state in JobState:
        if state.name in CONNECTS_NAMES:
            assert state.connect_name == state.name


def test_people_may_ask_for_everything_in_every_state() -> None:
    for state in JobState:
        assert set(WISHES) <= TRANSITIONS[state].keys()


def test_a_job_that_is_paused_while_it_runs_is_paused_once_its_work_has_ended() -> None:
    job = a_running_job()
    assert job.tell(Event.PAUSE, 5) is Effect.END
    assert (job.state, job.state.connect_name) == (JobState.PAUSING, "RUNNING")
    assert job.tell(Event.ENDED, 7) is None
    assert (job.state, job.status.since_ms) == (JobState.PAUSED, 7)
    assert job.tell(Event.RESUME, 9) is Effect.BEGIN


def test_a_job_that_is_resumed_before_its_work_has_ended_begins_again_only_then() -> None:
    job = a_running_job()
    job.tell(Event.PAUSE, 1)
    assert job.tell(Event.RESUME, 2) is None
    assert job.tell(Event.ENDED, 3) is Effect.BEGIN
    assert job.state is JobState.STARTING


def test_a_fault_that_may_pass_begins_the_work_again_after_waits_that_double() -> None:
    job = a_running_job(RestartPolicy(delay_ms=1_000, most_delay_ms=3_000))
    waits = []
    now_ms = 0
    for _ in range(4):
        assert job.fail(AWAY, now_ms) is Effect.WAIT
        assert (job.state, job.status.fault) == (JobState.RESTARTING, AWAY)
        assert job.status.due_ms is not None
        waits.append(job.status.due_ms - now_ms)
        assert job.tell(Event.DUE, job.status.due_ms - 1) is Effect.WAIT
        now_ms = job.status.due_ms
        assert job.tell(Event.DUE, now_ms) is Effect.BEGIN
        job.tell(Event.BEGAN, now_ms)
    assert waits == [1_000, 2_000, 3_000, 3_000]
    assert job.status.restarts == 4


def test_jitter_takes_away_up_to_half_of_a_wait() -> None:
    policy = RestartPolicy(delay_ms=1_000, most_delay_ms=60_000)
    assert [policy.wait_ms(2, jitter) for jitter in (0.0, 0.5, 1.0)] == [1_000, 1_500, 2_000]
    assert policy.wait_ms(10_000, 1.0) == 60_000


def test_work_that_was_healthy_for_a_while_makes_the_next_fault_the_first_one_again() -> None:
    job = a_running_job(RestartPolicy(most_restarts=1, healthy_ms=60_000))
    job.fail(AWAY, 0)
    job.tell(Event.DUE, 1_000)
    job.tell(Event.BEGAN, 1_000)
    job.fail(AWAY, 61_000)
    assert (job.state, job.status.failures) == (JobState.RESTARTING, 1)
    job.tell(Event.DUE, 70_000)
    job.tell(Event.BEGAN, 70_000)
    job.fail(AWAY, 71_000)
    assert (job.state, job.status.failures) == (JobState.FAILED, 2)


def test_a_final_fault_fails_the_job_with_its_reason_and_only_a_restart_begins_it_again() -> None:
    job = a_running_job()
    assert job.fail(WRONG, 3) is None
    assert (job.state, job.status.fault) == (JobState.FAILED, WRONG)
    assert job.tell(Event.PAUSE, 4) is None
    assert job.tell(Event.RESUME, 5) is None
    assert job.state is JobState.FAILED
    assert job.tell(Event.RESTART, 6) is Effect.BEGIN
    assert (job.status.fault, job.status.failures) == (None, 0)


def test_a_job_that_is_stopped_while_it_waits_for_its_next_attempt_never_makes_it() -> None:
    job = a_running_job()
    job.fail(AWAY, 0)
    job.tell(Event.STOP, 1)
    assert (job.state, job.status.due_ms) == (JobState.STOPPED, None)
    assert job.tell(Event.DUE, 1_000_000) is None
    assert job.state is JobState.STOPPED


def test_a_restart_leaves_a_paused_or_stopped_job_as_it_is() -> None:
    for initial in (JobState.PAUSED, JobState.STOPPED):
        job = Job(initial=initial, now_ms=0)
        assert job.tell(Event.RESTART, 1) is None
        assert job.state is initial
    with pytest.raises(ValueError, match="RESUME"):
        Job(initial=JobState.RUNNING, now_ms=0)


def test_the_end_of_work_that_was_not_begun_is_out_of_turn() -> None:
    with pytest.raises(OutOfTurn, match="stopped was told: the work ended"):
        Job(now_ms=0).tell(Event.ENDED, 1)


@pytest.mark.parametrize("seed", range(20))
def test_work_is_never_begun_beside_other_work(seed: int) -> None:
    """Random wishes, faults and ends: BEGIN comes only where no work is left, END only where some is."""
    chance = random.Random(seed)
    job, working, now_ms = Job(now_ms=0), False, 0
    for _ in range(300):
        now_ms += chance.randrange(2_000)
        events: list[Event | JobFault] = [*WISHES, Event.DUE]
        if working:
            events += [AWAY, WRONG, Event.ENDED]
        event = chance.choice(events)
        effect = job.fail(event, now_ms) if isinstance(event, JobFault) else job.tell(event, now_ms)
        if isinstance(event, JobFault) or event is Event.ENDED:
            working = False
        if effect is Effect.BEGIN:
            assert not working
            working = True
        assert effect is not Effect.END or working
        assert job.state.has_work == working
        assert (job.status.due_ms is not None) == (job.state is JobState.RESTARTING)
        assert (job.status.fault is not None) == (job.state in (JobState.FAILED, JobState.RESTARTING))
