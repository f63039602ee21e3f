"""The life of one long-running job: a load, a connector or one of its tasks, a stream, a mirror.

Pure: events and `now_ms` go in, effects come out. All transitions stand in one table. A job has one piece of work at a
time: it is begun, told to end, and only once it has ended is it begun again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class JobState(Enum):
    """The state of a job. PAUSING, STOPPING and RENEWING wait for the work, which was told to end."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    RESTARTING = "restarting"
    """The work failed for a reason that may pass; it begins again after a while."""
    RENEWING = "renewing"
    """The work was told to end, and begins again at once."""

    @property
    def connect_name(self) -> str:
        """The name that Kafka Connect has for the state; a job that is still ending has the name of what it does."""
        return _CONNECT_NAMES[self]

    @property
    def has_work(self) -> bool:
        """True where work was begun that has not ended yet."""
        return self in (JobState.STARTING, JobState.RUNNING, JobState.PAUSING, JobState.STOPPING, JobState.RENEWING)


class Event(Enum):
    """The events of a job. The first four are asked by people, the others told by the shell."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RESTART = "restart"
    BEGAN = "the work is under way"
    ENDED = "the work ended"
    FAULT_MAY_PASS = "the work failed, and may succeed another time"
    FAULT_IS_FINAL = "the work failed, and would fail again"
    DUE = "the wait for the next attempt is over"


class Effect(Enum):
    """The shell's next task."""

    BEGIN = "begin the work"
    END = "tell the work to end"
    WAIT = "wait until `due_ms`, then tell DUE"


_CONNECT_NAMES = {
    JobState.STARTING: "UNASSIGNED",
    JobState.RUNNING: "RUNNING",
    JobState.PAUSING: "RUNNING",
    JobState.PAUSED: "PAUSED",
    JobState.STOPPING: "RUNNING",
    JobState.STOPPED: "STOPPED",
    JobState.FAILED: "FAILED",
    JobState.RESTARTING: "RESTARTING",
    JobState.RENEWING: "RESTARTING",
}

TRANSITIONS: dict[JobState, dict[Event, tuple[JobState, Effect | None]]] = {
    JobState.STARTING: {
        Event.PAUSE: (JobState.PAUSING, Effect.END),
        Event.RESUME: (JobState.STARTING, None),
        Event.STOP: (JobState.STOPPING, Effect.END),
        Event.RESTART: (JobState.RENEWING, Effect.END),
        Event.BEGAN: (JobState.RUNNING, None),
        Event.ENDED: (JobState.STOPPED, None),
        Event.FAULT_MAY_PASS: (JobState.RESTARTING, Effect.WAIT),
        Event.FAULT_IS_FINAL: (JobState.FAILED, None),
    },
    JobState.RUNNING: {
        Event.PAUSE: (JobState.PAUSING, Effect.END),
        Event.RESUME: (JobState.RUNNING, None),
        Event.STOP: (JobState.STOPPING, Effect.END),
        Event.RESTART: (JobState.RENEWING, Effect.END),
        Event.ENDED: (JobState.STOPPED, None),
        Event.FAULT_MAY_PASS: (JobState.RESTARTING, Effect.WAIT),
        Event.FAULT_IS_FINAL: (JobState.FAILED, None),
    },
    JobState.PAUSING: {
        Event.PAUSE: (JobState.PAUSING, None),
        Event.RESUME: (JobState.RENEWING, None),
        Event.STOP: (JobState.STOPPING, None),
        Event.RESTART: (JobState.PAUSING, None),
        Event.BEGAN: (JobState.PAUSING, None),
        Event.ENDED: (JobState.PAUSED, None),
        Event.FAULT_MAY_PASS: (JobState.PAUSED, None),
        Event.FAULT_IS_FINAL: (JobState.FAILED, None),
    },
    JobState.PAUSED: {
        Event.PAUSE: (JobState.PAUSED, None),
        Event.RESUME: (JobState.STARTING, Effect.BEGIN),
        Event.STOP: (JobState.STOPPED, None),
        Event.RESTART: (JobState.PAUSED, None),
    },
    JobState.STOPPING: {
        Event.PAUSE: (JobState.PAUSING, None),
        Event.RESUME: (JobState.RENEWING, None),
        Event.STOP: (JobState.STOPPING, None),
        Event.RESTART: (JobState.STOPPING, None),
        Event.BEGAN: (JobState.STOPPING, None),
        Event.ENDED: (JobState.STOPPED, None),
        Event.FAULT_MAY_PASS: (JobState.STOPPED, None),
        Event.FAULT_IS_FINAL: (JobState.STOPPED, None),
    },
    JobState.STOPPED: {
        Event.PAUSE: (JobState.PAUSED, None),
        Event.RESUME: (JobState.STARTING, Effect.BEGIN),
        Event.STOP: (JobState.STOPPED, None),
        Event.RESTART: (JobState.STOPPED, None),
    },
    JobState.FAILED: {  # as in Kafka Connect, only a restart or a stop ends a failure
        Event.PAUSE: (JobState.FAILED, None),
        Event.RESUME: (JobState.FAILED, None),
        Event.STOP: (JobState.STOPPED, None),
        Event.RESTART: (JobState.STARTING, Effect.BEGIN),
    },
    JobState.RESTARTING: {
        Event.PAUSE: (JobState.PAUSED, None),
        Event.RESUME: (JobState.RESTARTING, None),
        Event.STOP: (JobState.STOPPED, None),
        Event.RESTART: (JobState.STARTING, Effect.BEGIN),
        Event.DUE: (JobState.STARTING, Effect.BEGIN),
    },
    JobState.RENEWING: {
        Event.PAUSE: (JobState.PAUSING, None),
        Event.RESUME: (JobState.RENEWING, None),
        Event.STOP: (JobState.STOPPING, None),
        Event.RESTART: (JobState.RENEWING, None),
        Event.BEGAN: (JobState.RENEWING, None),
        Event.ENDED: (JobState.STARTING, Effect.BEGIN),
        Event.FAULT_MAY_PASS: (JobState.STARTING, Effect.BEGIN),
        Event.FAULT_IS_FINAL: (JobState.STARTING, Effect.BEGIN),
    },
}
_INITIAL = (JobState.PAUSED, JobState.STOPPED)


class OutOfTurn(Exception):
    """The shell told an event that cannot happen in this state: a mistake of the shell."""


@dataclass(frozen=True, slots=True)
class JobFault:
    """The end of the work by an error."""

    reason: str
    """One line."""
    trace: str = ""
    may_pass: bool = False


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The waits between attempts after faults that may pass: doubling, up to a limit."""

    delay_ms: int = 1_000
    most_delay_ms: int = 300_000
    most_restarts: int | None = None
    """The restarts in a row after which a fault is final; None: no limit, 0: every fault is final."""
    healthy_ms: int = 300_000
    """Work that was under way for so long makes the next fault the first one again."""

    def wait_ms(self, failures: int, jitter: float) -> int:
        """The wait after so many failures in a row: half of it fixed, half times `jitter`, 0 to 1."""
        whole = min(self.delay_ms << min(failures - 1, 62), self.most_delay_ms)
        return whole // 2 + int((whole - whole // 2) * jitter)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as others see it."""

    state: JobState
    since_ms: int
    fault: JobFault | None
    """The fault of a failed or restarting job."""
    failures: int
    """Failures in a row."""
    restarts: int
    """Restarts after faults, ever."""
    due_ms: int | None
    """The time of the next attempt, while the job waits for it."""
    phase: str = ""
    """The phase of the work that is under way, in a word of its own; empty where it has none."""

    def text(self) -> str:
        """`restarting: no broker answers (failure 3)`."""
        if self.fault is None:
            return self.state.value
        count = f" (failure {self.failures})" if self.state is JobState.RESTARTING else ""
        return f"{self.state.value}: {self.fault.reason}{count}"


class Job:
    """The machine. `tell` takes an event and returns the effect that the shell carries out, if there is one."""

    def __init__(
        self, policy: RestartPolicy | None = None, *, initial: JobState = JobState.STOPPED, now_ms: int
    ) -> None:
        """`initial` is PAUSED or STOPPED: a RESUME begins the work."""
        if initial not in _INITIAL:
            raise ValueError(f"a job is made paused or stopped, not {initial.value}; RESUME begins its work")
        self._policy = policy or RestartPolicy()
        self.status = JobStatus(initial, now_ms, None, 0, 0, None)

    @property
    def state(self) -> JobState:
        """The present state."""
        return self.status.state

    def tell(self, event: Event, now_ms: int) -> Effect | None:
        """Take an event other than a fault."""
        if event is Event.DUE and self._is_early(now_ms):
            return Effect.WAIT if self.state is JobState.RESTARTING else None
        failures = 0 if event is Event.RESTART else self.status.failures
        return self._step(event, now_ms, fault=self.status.fault, failures=failures)

    def fail(self, fault: JobFault, now_ms: int, *, jitter: float = 1.0) -> Effect | None:
        """Take the end of the work by an error; `jitter`, 0 to 1, spreads the next attempts of many jobs."""
        healthy = self.state is JobState.RUNNING and now_ms - self.status.since_ms >= self._policy.healthy_ms
        failures = 1 if healthy else self.status.failures + 1
        most = self._policy.most_restarts
        passing = fault.may_pass and (most is None or failures <= most)
        event = Event.FAULT_MAY_PASS if passing else Event.FAULT_IS_FINAL
        due_ms = now_ms + self._policy.wait_ms(failures, jitter)
        return self._step(event, now_ms, fault=fault, failures=failures, due_ms=due_ms)

    def enter(self, phase: str) -> None:
        """Take a new phase of the work."""
        assert self.state.has_work
        self.status = replace(self.status, phase=phase)

    def _is_early(self, now_ms: int) -> bool:
        """True where nothing is due: the wait was ended by somebody's wish, or is not over."""
        return self.state is not JobState.RESTARTING or now_ms < (self.status.due_ms or 0)

    def _step(
        self, event: Event, now_ms: int, *, fault: JobFault | None, failures: int, due_ms: int | None = None
    ) -> Effect | None:
        before = self.status
        if event not in TRANSITIONS[before.state]:
            raise OutOfTurn(f"a job that is {before.state.value} was told: {event.value}")
        state, effect = TRANSITIONS[before.state][event]
        self.status = JobStatus(
            state=state,
            since_ms=before.since_ms if state is before.state else now_ms,
            fault=fault if state in (JobState.FAILED, JobState.RESTARTING) else None,
            failures=0 if state is JobState.STOPPED else failures,
            restarts=before.restarts + (event is Event.DUE),
            due_ms=(due_ms or before.due_ms) if state is JobState.RESTARTING else None,
            phase=before.phase if state.has_work and effect is not Effect.BEGIN else "",
        )
        return effect
