"""One task as a job: begun, paused, begun again after faults that may pass; each new status is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.base import RUNNER, LoadTask, SinkTask
from ottla.connect.tasks.exactly_once import ExactlyOnce, ExactlyOnceWork
from ottla.connect.tasks.offsets import OffsetStore
from ottla.connect.tasks.on_spark import spread, task_after_pieces
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.secrets import Secrets
from ottla.connect.tasks.sink import SinkWork
from ottla.connect.tasks.source import SourceWork
from ottla.jobs.running_async import AsyncJobRun, RunningAsync
from ottla.jobs.states import JobFault, JobStatus, RestartPolicy


def run_task(
    plan: TaskPlan,
    offsets: OffsetStore,
    on_state: Callable[[JobStatus], None] = lambda status: None,
    policy: RestartPolicy | None = None,
    on_topics: Callable[[Iterable[str]], None] = lambda topics: None,
    once: ExactlyOnce | None = None,
) -> RunningAsync:
    """The task as a job that is not begun: `await it.run()`, and `it.ask(Event.PAUSE)` and so on meanwhile.

    `on_topics` is told the topics of each list of records that the task has read or delivered. With `once` a source
    writes in transactions, with the offsets that `once` names.
    """

    secrets = Secrets(plan.worker)

    async def work(run: AsyncJobRun) -> None:
        own = secrets.config(plan.task_config)
        config = {**secrets.config(plan.connector_config), **own}
        on_spark = config.get(RUNNER) == "spark" and not plan.plugin.goes_to_spark
        task = task_after_pieces(plan, config, on_topics) if on_spark else plan.plugin.task(own)
        if task is None:
            await spread(plan, config, on_topics).run(run)
        elif isinstance(task, SinkTask):
            await SinkWork(plan, config, task, on_topics).run(run)
        elif isinstance(task, LoadTask):
            await task.run(plan.worker, run, on_topics)
        elif once is not None:
            await ExactlyOnceWork(plan, config, task, once, on_topics).run(run)
        else:
            await SourceWork(plan, config, task, offsets, on_topics).run(run)

    def fault_of(error: Exception) -> JobFault:
        fault = plan.fault_of(error)
        given = {**plan.connector_config, **plan.task_config}
        try:
            reason, trace = secrets.hidden(fault.reason, given), secrets.hidden(fault.trace, given)
        except ConfigException:  # a secret that is missing cannot have been shown
            reason, trace = fault.reason, fault.trace
        return replace(fault, reason=reason, trace=trace)

    grace_ms = int(plan.worker.get("task.shutdown.graceful.timeout.ms", 5_000))
    return RunningAsync(plan.name, work, policy=policy, fault_of=fault_of, on_state=on_state, grace_ms=grace_ms)
