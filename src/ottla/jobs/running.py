"""One job in this process: its work on the calling thread, wishes from any thread, signals, exit status, metrics.

Decides nothing: `states.py` does. A job in an event loop needs the same few lines around the same machine.
"""

from __future__ import annotations

import _thread
import logging
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

from ottla.client.errors import may_retry
from ottla.jobs.progress import CLEAR
from ottla.jobs.states import Effect, Event, Job, JobFault, JobState, JobStatus, RestartPolicy
from ottla.metrics.metric import Metric, Sample

JOB_STATE = Metric(
    "ottla_job_state", "gauge", "1 for the present state of the job, 0 for the others.", ("job", "state")
)
JOB_RESTARTS = Metric("ottla_job_restarts_total", "counter", "Restarts of the job after faults.", ("job",))
JOB_FAILURES = Metric("ottla_job_failures_in_a_row", "gauge", "Failures since the job last was healthy.", ("job",))
log = logging.getLogger("ottla.jobs")


class JobRun:
    """One attempt, for the work: it looks at `ending` between its steps, and calls `began` once it is under way."""

    def __init__(self, began: Callable[[], None]) -> None:
        self.ending = threading.Event()
        self.began = began


Work = Callable[[JobRun], None]
"""The work of a job. It returns when it is done or `ending` is set, and raises where it fails."""


class Running:
    """Runs a job until it is stopped, is done, or has failed for good."""

    def __init__(
        self,
        name: str,
        work: Work,
        *,
        policy: RestartPolicy | None = None,
        fault_of: Callable[[Exception], JobFault] | None = None,
        now_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000),
    ) -> None:
        """`fault_of` says what an error of the work means; by default `error_fault` does."""
        self.name = name
        self._work = work
        self._fault_of = fault_of or error_fault
        self._now_ms = now_ms
        self._changed = threading.Condition()
        self._job = Job(policy, now_ms=now_ms())
        self._run = JobRun(lambda: None)

    @property
    def status(self) -> JobStatus:
        """The present state, with the last fault."""
        return self._job.status

    def ask(self, event: Event) -> None:
        """Pause, resume, stop or restart the job; for any thread. Returns at once."""
        self._tell(event)

    def run(self) -> int:
        """Do the work, again after faults that may pass; the exit status: 0 where it was stopped or is done, else 1."""
        self._tell(Event.RESUME)
        while True:
            with self._changed:
                while self.status.state in (JobState.PAUSED, JobState.RESTARTING):
                    self._wait()
                if not self.status.state.has_work:
                    break
                run = self._run
            self._attempt(run)
        return 1 if self.status.state is JobState.FAILED else 0

    def samples(self) -> list[Sample]:
        """The metrics of the job now."""
        return job_samples(self.name, self.status)

    def _attempt(self, run: JobRun) -> None:
        try:
            if not run.ending.is_set():
                self._work(run)
        except Exception as error:
            fault = self._fault_of(error)
            with self._changed:
                self._carry_out(self._job.fail(fault, self._now_ms(), jitter=random.random()))
                log.warning("%s: %s", self.name, self.status.text())
        else:
            self._tell(Event.ENDED)

    def _tell(self, event: Event) -> None:
        with self._changed:
            self._carry_out(self._job.tell(event, self._now_ms()))
            self._changed.notify_all()

    def _carry_out(self, effect: Effect | None) -> None:
        """With the lock held. The wait for the next attempt is in `run`, as is the work itself."""
        if effect is Effect.BEGIN:
            self._run = JobRun(lambda: self._tell(Event.BEGAN))
        elif effect is Effect.END:
            self._run.ending.set()

    def _wait(self) -> None:
        """Wait for a wish, or until the next attempt is due; with the lock held."""
        due_ms = self.status.due_ms
        if due_ms is None:
            self._changed.wait()
            return
        self._changed.wait(max(0, due_ms - self._now_ms()) / 1000)
        self._tell(Event.DUE)


def error_fault(error: Exception) -> JobFault:
    """The fault that an error is. Brokers that are away, and what the system says of connections, may pass."""
    may_pass = may_retry(error) or isinstance(error, ConnectionError | TimeoutError)
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    return JobFault(reason, "".join(traceback.format_exception(error)), may_pass=may_pass)


def job_samples(name: str, status: JobStatus) -> list[Sample]:
    """The metrics of a job with this status."""
    return [
        *(Sample(JOB_STATE, (name, state.value), int(state is status.state)) for state in JobState),
        Sample(JOB_RESTARTS, (name,), status.restarts),
        Sample(JOB_FAILURES, (name,), status.failures),
    ]


def stop_on_signals(stop: Callable[[], None], sentence: str, *, stopping: Callable[[], bool] = lambda: False) -> None:
    """Call `stop` at the first SIGTERM or SIGINT, on a thread of its own; a second one ends the process at once.

    `stopping` tells that it was asked before, where handlers are put in place again.
    The handler takes no lock: the thread that it interrupts may hold that of an event, or of stderr.
    """
    asked: list[int] = []
    clear = CLEAR.encode() if os.isatty(2) else b""

    def ask_to_stop(number: int, _frame: FrameType | None) -> None:
        if asked or stopping():
            signal.signal(number, signal.SIG_DFL)
            raise KeyboardInterrupt
        asked.append(number)
        os.write(2, clear + sentence.encode() + b"\n")
        _thread.start_new_thread(stop, ())

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
