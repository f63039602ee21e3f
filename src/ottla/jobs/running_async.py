"""One job in an event loop: its work in a task, wishes from the same loop. Decides nothing: `states.py` does."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable

from ottla.jobs.running import error_fault
from ottla.jobs.states import Effect, Event, Job, JobFault, JobState, JobStatus, RestartPolicy

log = logging.getLogger("ottla.jobs")


class AsyncJobRun:
    """One attempt, for the work: it waits for `ending` between its steps, and calls `began` once it is under way.

    Work that has phases calls `entered` with each.
    """

    def __init__(self, began: Callable[[], None], entered: Callable[[str], None] = lambda phase: None) -> None:
        self.ending = asyncio.Event()
        self.began, self.entered = began, entered


Work = Callable[[AsyncJobRun], Awaitable[None]]
"""The work of a job. It returns when it is done or `ending` is set, and raises where it fails."""


class RunningAsync:
    """Runs a job until it is stopped, is done, or has failed for good. For one event loop."""

    def __init__(
        self,
        name: str,
        work: Work,
        *,
        policy: RestartPolicy | None = None,
        fault_of: Callable[[Exception], JobFault] = error_fault,
        on_state: Callable[[JobStatus], None] = lambda status: None,
        grace_ms: float = 5_000,
        now_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000),
    ) -> None:
        """`on_state` is told each new status. Work that does not end within `grace_ms` is cancelled."""
        self.name = name
        self._work, self._fault_of, self._on_state = work, fault_of, on_state
        self._grace_ms, self._now_ms = grace_ms, now_ms
        self._job = Job(policy, now_ms=now_ms())
        self._stirred = asyncio.Event()
        self._run = AsyncJobRun(lambda: None)

    @property
    def status(self) -> JobStatus:
        """The present state, with the last fault."""
        return self._job.status

    def ask(self, event: Event) -> None:
        """Pause, resume, stop or restart the job. Returns at once."""
        self._after(lambda: self._job.tell(event, self._now_ms()))

    async def run(self, begin: Event = Event.RESUME) -> int:
        """Do the work, again after faults that may pass; the exit status: 0 where it was stopped or is done, else 1.

        `begin` is PAUSE for a job that waits for its first RESUME.
        """
        self.ask(begin)
        while True:
            while self.status.state in (JobState.PAUSED, JobState.RESTARTING):
                await self._wait()
            if not self.status.state.has_work:
                return 1 if self.status.state is JobState.FAILED else 0
            await self._attempt(self._run)

    async def _attempt(self, run: AsyncJobRun) -> None:
        work = asyncio.ensure_future(self._work(run))
        ending = asyncio.ensure_future(run.ending.wait())
        try:
            await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait((work,), timeout=self._grace_ms / 1000)
        finally:
            ending.cancel()
            while not work.done():  # its clean-up may wait for brokers that are away: then it is cancelled again
                work.cancel()
                await asyncio.wait((work,), timeout=self._grace_ms / 1000)
        if work.cancelled():
            log.warning("%s: its work did not end within %d ms and was cancelled", self.name, self._grace_ms)
        error = None if work.cancelled() else work.exception()
        if error is None:
            self.ask(Event.ENDED)
        elif isinstance(error, Exception):
            self._fail(self._fault_of(error))
        else:
            raise error

    def _fail(self, fault: JobFault) -> None:
        self._after(lambda: self._job.fail(fault, self._now_ms(), jitter=random.random()))
        log.warning("%s: %s", self.name, self.status.text())

    def _enter(self, phase: str) -> None:
        self._after(lambda: self._job.enter(phase))

    def _after(self, step: Callable[[], Effect | None]) -> None:
        """Take a step of the machine, carry out its effect, tell what is new."""
        before = self.status
        effect = step()
        if effect is Effect.BEGIN:
            self._run = AsyncJobRun(lambda: self.ask(Event.BEGAN), self._enter)
        elif effect is Effect.END:
            self._run.ending.set()
        self._stirred.set()
        if self.status != before:
            self._on_state(self.status)

    async def _wait(self) -> None:
        """Wait for a wish, or until the next attempt is due."""
        self._stirred.clear()
        due_ms = self.status.due_ms
        try:
            async with asyncio.timeout(None if due_ms is None else max(0, due_ms - self._now_ms()) / 1000):
                await self._stirred.wait()
        except TimeoutError:
            self.ask(Event.DUE)
