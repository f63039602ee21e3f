"""One task as a job: begun, paused, begun again after faults that may pass; each new status is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.connect.plugins.base import LoadTask, SinkTask
from ottla.connect.tasks.offsets import OffsetStore
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.secrets import providers_of, resolved
from ottla.connect.tasks.sink import SinkWork
from ottla.connect.tasks.source import SourceWork
from ottla.jobs.running_async import Run, Running
from ottla.jobs.states import RestartPolicy, Status


def run_task(
    plan: TaskPlan,
    offsets: OffsetStore,
    on_state: Callable[[Status], None] = lambda status: None,
    policy: RestartPolicy | None = None,
    on_topics: Callable[[Iterable[str]], None] = lambda topics: None,
) -> Running:
    """The task as a job that is not begun: `await it.run()`, and `it.ask(Event.PAUSE)` and so on meanwhile.

    `on_topics` is told the topics of each list of records that the task has read or delivered.
    """

    async def work(run: Run) -> None:
        providers = providers_of(plan.worker)
        own = resolved(plan.task_config, providers)
        config = {**resolved(plan.connector_config, providers), **own}
        task = plan.plugin.task(own)
        if isinstance(task, SinkTask):
            await SinkWork(plan, config, task, on_topics).run(run)
        elif isinstance(task, LoadTask):
            await task.run(plan.worker, run, on_topics)
        else:
            await SourceWork(plan, config, task, offsets, on_topics).run(run)

    grace_ms = int(plan.worker.get("task.shutdown.graceful.timeout.ms", 5_000))
    return Running(plan.name, work, policy=policy, fault_of=plan.fault_of, on_state=on_state, grace_ms=grace_ms)
