"""A job in an event loop."""

import asyncio

from ottla.jobs.running_async import AsyncJobRun, RunningAsync
from ottla.jobs.states import Event, JobState, RestartPolicy

AT_ONCE = RestartPolicy(delay_ms=0)


async def until(running: RunningAsync, state: JobState) -> None:
    while running.status.state is not state:
        await asyncio.sleep(0)


def test_work_that_fails_for_a_passing_reason_is_begun_again():
    attempts = []

    async def work(run: AsyncJobRun) -> None:
        attempts.append(run)
        if len(attempts) < 3:
            raise ConnectionError("away")

    running = RunningAsync("copy", work, policy=AT_ONCE)
    assert asyncio.run(running.run()) == 0
    assert len(attempts) == 3
    assert running.status.restarts == 2


def test_a_final_fault_is_the_exit_status_and_is_told_with_its_reason():
    seen = []

    async def work(run: AsyncJobRun) -> None:
        raise ValueError("no such column")

    assert asyncio.run(RunningAsync("copy", work, on_state=seen.append).run()) == 1
    assert [status.state for status in seen] == [JobState.STARTING, JobState.FAILED]
    assert seen[-1].fault is not None
    assert seen[-1].fault.reason == "no such column"


def test_a_paused_job_works_on_after_its_resume_and_ends_at_its_stop():
    begun = []

    async def work(run: AsyncJobRun) -> None:
        begun.append(run)
        run.began()
        await run.ending.wait()

    async def story() -> int:
        running = RunningAsync("copy", work)
        task = asyncio.create_task(running.run())
        await until(running, JobState.RUNNING)
        running.ask(Event.PAUSE)
        await until(running, JobState.PAUSED)
        running.ask(Event.RESUME)
        await until(running, JobState.RUNNING)
        running.ask(Event.STOP)
        return await task

    assert asyncio.run(story()) == 0
    assert len(begun) == 2


def test_work_that_does_not_end_in_time_is_cancelled():
    async def work(run: AsyncJobRun) -> None:
        run.began()
        await asyncio.Event().wait()

    async def story() -> int:
        running = RunningAsync("copy", work, grace_ms=1)
        task = asyncio.create_task(running.run())
        await until(running, JobState.RUNNING)
        running.ask(Event.STOP)
        return await task

    assert asyncio.run(story()) == 0


def test_a_job_that_begins_paused_does_nothing_until_it_is_resumed():
    async def work(run: AsyncJobRun) -> None:
        raise AssertionError("the work was begun")

    async def story() -> int:
        running = RunningAsync("copy", work)
        task = asyncio.create_task(running.run(Event.PAUSE))
        await until(running, JobState.PAUSED)
        running.ask(Event.STOP)
        return await task

    assert asyncio.run(story()) == 0


def test_clean_up_that_does_not_end_is_cancelled_too():
    async def work(run: AsyncJobRun) -> None:
        run.began()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    async def story() -> int:
        running = RunningAsync("copy", work, grace_ms=1)
        task = asyncio.create_task(running.run())
        await until(running, JobState.RUNNING)
        running.ask(Event.STOP)
        return await task

    assert asyncio.run(story()) == 0


def test_a_phase_of_the_work_is_told_and_ends_with_the_work():
    attempts, seen = [], []

    async def work(run: AsyncJobRun) -> None:
        attempts.append(run)
        run.began()
        if len(attempts) == 1:
            run.entered("snapshot")
            raise ConnectionError("away")

    assert asyncio.run(RunningAsync("copy", work, policy=AT_ONCE, on_state=seen.append).run()) == 0
    assert [(each.state, each.phase) for each in seen] == [
        (JobState.STARTING, ""), (JobState.RUNNING, ""), (JobState.RUNNING, "snapshot"), (JobState.RESTARTING, ""),
        (JobState.STARTING, ""), (JobState.RUNNING, ""), (JobState.STOPPED, ""),
    ]  # fmt: skip
