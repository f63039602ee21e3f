"""A job in this process: its work on a thread of the test, wishes from another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from ottla.client.errors import BrokerUnreachable
from ottla.jobs.running import JOB_STATE, JobRun, Running, error_fault
from ottla.jobs.states import Event, JobState, RestartPolicy

AT_ONCE = RestartPolicy(delay_ms=0)


def test_work_that_is_done_ends_the_job_with_status_0() -> None:
    job = Running("load", lambda run: run.began())
    assert job.run() == 0
    assert job.status.state is JobState.STOPPED


def test_work_is_done_again_after_a_fault_that_may_pass_and_not_after_a_final_one() -> None:
    faults: list[Exception] = [BrokerUnreachable("nobody answers"), ConnectionResetError("gone"), KeyError("column")]
    job = Running("load", lambda _: _raise(faults.pop(0)), policy=AT_ONCE)
    assert job.run() == 1
    assert not faults
    assert job.status.restarts == 2
    assert job.status.fault is not None
    assert "column" in job.status.fault.reason
    assert "KeyError" in job.status.fault.trace


def _raise(error: Exception) -> None:
    raise error


def test_a_job_that_is_paused_goes_on_when_it_is_resumed_and_ends_when_it_is_stopped() -> None:
    under_way, attempts = threading.Semaphore(0), []

    def work(run: JobRun) -> None:
        attempts.append(run)
        run.began()
        under_way.release()
        run.ending.wait()

    job = Running("mirror", work)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(job.run()))
    thread.start()
    under_way.acquire()
    job.ask(Event.PAUSE)
    job.ask(Event.RESUME)
    under_way.acquire()
    assert {sample.labels[1]: sample.value for sample in job.samples() if sample.metric is JOB_STATE}["running"] == 1
    job.ask(Event.STOP)
    thread.join()
    assert (codes, len(attempts)) == ([0], 2)


def test_work_that_was_told_to_end_before_it_was_begun_is_not_begun() -> None:
    begun: list[JobRun] = []
    job = Running("load", begun.append)
    job.ask(Event.RESUME)
    job.ask(Event.STOP)
    assert job.run() == 0
    assert [run.ending.is_set() for run in begun] == [False]


def test_a_wait_for_the_next_attempt_ends_when_the_job_is_stopped() -> None:
    failed = threading.Event()

    def work(_: JobRun) -> None:
        failed.set()
        raise TimeoutError("nobody answers")

    job = Running("mirror", work, policy=RestartPolicy(delay_ms=3_600_000, most_delay_ms=3_600_000))
    thread = threading.Thread(target=job.run)
    thread.start()
    failed.wait()
    job.ask(Event.STOP)
    thread.join()
    assert job.status.state is JobState.STOPPED


def test_an_error_of_the_system_about_a_file_is_final() -> None:
    assert not error_fault(FileNotFoundError("no such file")).may_pass
    assert error_fault(ConnectionRefusedError("refused")).may_pass
    assert error_fault(ValueError("")).reason == "ValueError"


PROGRAM = """
import sys
from ottla.jobs.running import Running, stop_on_signals
from ottla.jobs.states import Event

def work(run):
    run.began()
    print("under way", flush=True)
    run.ending.wait()

job = Running("load", work)
stop_on_signals(lambda: job.ask(Event.STOP), "stopping after this round")
sys.exit(job.run())
"""


def test_sigterm_stops_a_job_cleanly() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        os.kill(process.pid, signal.SIGTERM)
        _, said = process.communicate()
    assert (process.returncode, said) == (0, "stopping after this round\n")
