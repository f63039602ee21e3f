"""A task whose work, or the first of it, is done by Spark's workers: it says which pieces there are, and keeps what
they have done.

All tasks of a worker share one session. One job runs at a time. The pieces that come meanwhile, of whichever
connectors, go into the next one together.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any, Final
from weakref import WeakKeyDictionary

from ottla.client import aio
from ottla.client.model import EARLIEST, LATEST, CommittedOffset
from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.java.regex import compiled
from ottla.connect.machine.connector_options import values_of
from ottla.connect.plugins.base import SPARK, SinkConnector, SourceConnector, SourceTask
from ottla.connect.shared_spark import IN_TURN, SharedSpark
from ottla.connect.tasks.clients import bootstrap, consumer_of
from ottla.connect.tasks.plan import TaskFault, TaskPlan
from ottla.connect.tasks.ranges import PieceDone, SinkRange, WorkPiece, carried_out
from ottla.connect.threads import ended
from ottla.jobs.running_async import AsyncJobRun
from ottla.kernel.ids import TopicPartition

MOST_OFFSETS: Final = 1_000_000
"""The most offsets of a partition in one job: a stop waits for its end."""
Config = Mapping[str, str]
OnTopics = Callable[[Iterable[str]], None]
log = logging.getLogger("ottla.connect")


class GatheredJobs:
    """Jobs of one event loop, one at a time."""

    def __init__(self, do: Callable[[SharedSpark, Sequence[WorkPiece]], list[PieceDone]]) -> None:
        self._do = do
        self._waiting: list[tuple[SharedSpark, Sequence[WorkPiece], asyncio.Future[list[PieceDone]]]] = []
        self._working: asyncio.Task[None] | None = None

    async def done(self, spark: SharedSpark, pieces: Sequence[WorkPiece]) -> list[PieceDone]:
        """The outcomes of pieces, once the job that they were part of has ended."""
        outcome: asyncio.Future[list[PieceDone]] = asyncio.get_running_loop().create_future()
        self._waiting.append((spark, pieces, outcome))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        await ended(outcome)
        return outcome.result()

    async def _work(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                together = [piece for _, pieces, _ in taken for piece in pieces]
                try:
                    made = await asyncio.to_thread(self._do, taken[0][0], together)
                except Exception as fault:
                    for _, _, outcome in taken:
                        outcome.set_exception(fault)
                    continue
                for _, pieces, outcome in taken:
                    outcome.set_result(made[: len(pieces)])
                    made = made[len(pieces) :]
        finally:
            self._working = None


def _opened(spark: SharedSpark) -> None:
    """Open the session; ConfigException where this machine or another connector does not allow that."""
    if find_spec("pyspark") is None:
        raise ConfigException("ottla.runner=spark needs Spark: pip install 'ottla[spark]', and a Java runtime")
    from ottla.spark.launch import SparkRefused

    try:
        with IN_TURN:
            spark.session()
    except SparkRefused as fault:
        raise ConfigException(str(fault)) from fault


def _on_session(spark: SharedSpark, pieces: Sequence[WorkPiece]) -> list[PieceDone]:
    """Run one job. A fault of Spark itself may pass: the next job begins with a session that answers."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from ottla.spark.executors import Executors

    with IN_TURN:
        try:
            return Executors(spark.session()).map(carried_out, pieces)
        except (Py4JError, PySparkException, OSError) as fault:
            first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
            raise RetriableException(f"Spark has not done its job: {first}") from fault


_JOBS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, GatheredJobs]] = WeakKeyDictionary()


class OnSpark:
    """One attempt of a task, as far as it has pieces of work done on Spark."""

    def __init__(self, plan: TaskPlan, config: Config, on_topics: OnTopics) -> None:
        self._plan, self._config, self._on_topics = plan, config, on_topics
        options = ConfigDef(*SPARK).parse(config)
        self._spark = SharedSpark(options["spark.master"], tuple(options["spark.conf"]))
        self._jobs = _JOBS.setdefault(asyncio.get_running_loop(), GatheredJobs(_on_session))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[None]:
        """Hold the session."""
        try:
            opening = asyncio.ensure_future(asyncio.to_thread(_opened, self._spark))
            await ended(opening)  # else a task that is ended meanwhile would leave its hold on the session behind
            opening.result()
            yield
        finally:
            await ended(asyncio.ensure_future(asyncio.to_thread(self._spark.release)))

    def _piece(self, config: Config, span: SinkRange | None = None) -> WorkPiece:
        return WorkPiece(self._plan.connector, self._plan.plugin, config, self._plan.worker, span)

    async def _done(self, pieces: Sequence[WorkPiece]) -> list[PieceDone]:
        """The outcomes of pieces, with what they counted; their faults are still to be raised."""
        found = await self._jobs.done(self._spark, pieces)
        for each in found:
            self._plan.counts.add(each.counts)
            if each.topics:
                self._on_topics(each.topics)
        return found


class FirstPieces(OnSpark):
    """The pieces that a source has read before it reads on by itself."""

    async def read(self, configs: Sequence[Config]) -> None:
        """Run the task of each configuration to its end, side by side; a job that has begun is waited for."""
        async with self._session():
            this = asyncio.current_task()
            if this is not None and this.cancelling():  # while the session opened
                raise asyncio.CancelledError
            raise_first(await self._done([self._piece({**self._config, **each}) for each in configs]))


class SpreadWork(OnSpark, ABC):
    """One attempt of a task all of whose work is done on Spark."""

    async def run(self, run: AsyncJobRun) -> None:
        """Do the work until it is to end; a job that has begun is waited for."""
        async with self._session():
            await self._rounds(run)

    @abstractmethod
    async def _rounds(self, run: AsyncJobRun) -> None:
        """Do round after round."""


class SpreadSink(SpreadWork):
    """A sink: each round is what its topics hold, a piece a partition. It commits in the group `connect-NAME`."""

    async def _rounds(self, run: AsyncJobRun) -> None:
        plan = self._plan
        interval_s = int(plan.worker.get("offset.flush.interval.ms", 60_000)) / 1000
        settings, client = consumer_of(
            plan.worker, self._config, f"connector-consumer-{plan.name}", f"connect-{plan.connector}"
        )
        self._reset = settings.auto_offset_reset
        self._isolation = settings.fetch.isolation_level
        async with aio.Consumer(bootstrap(plan.worker), consumer=settings, settings=client) as consumer:
            tried: list[SinkRange] = []
            run.began()
            while not run.ending.is_set():
                spans = [span for span in await self._spans(consumer) if span not in tried]
                done = await self._done([self._piece(self._config, span) for span in spans]) if spans else []
                offsets = {
                    span.partition: CommittedOffset(each.offset)
                    for span, each in zip(spans, done, strict=True)
                    if each.offset is not None
                }
                if offsets:
                    await consumer.commit(offsets)
                raise_first(done)
                tried = [span for span in spans if span.partition not in offsets]  # nothing of it can be finished yet
                if not offsets:
                    await wait(run, interval_s)

    async def _spans(self, consumer: aio.Consumer) -> list[SinkRange]:
        """The offsets of each partition that are not committed."""
        options = values_of("sink", self._config)
        views = await consumer.cluster.topics()
        pattern = options["topics.regex"]
        names = [each for each in views if compiled(pattern).fullmatch(each)] if pattern else options["topics"]
        partitions = [
            TopicPartition(name, each) for name in names if name in views for each in sorted(views[name].partitions)
        ]
        if not partitions:
            return []
        committed = await consumer.committed(partitions)
        first = await consumer.cluster.list_offsets(partitions, EARLIEST)
        last = await consumer.cluster.list_offsets(partitions, LATEST, self._isolation)
        found = []
        for each in partitions:
            begin = first[each].offset if self._reset == "earliest" else last[each].offset
            if each in committed:
                begin = self._kept(each, committed[each].offset, first[each].offset)
            elif self._reset != "earliest":
                await consumer.commit({each: CommittedOffset(begin)})  # else the next round would begin later
            end = min(last[each].offset, begin + MOST_OFFSETS)
            if begin < end:
                found.append(SinkRange(each, begin, end))
        return found

    def _kept(self, partition: TopicPartition, committed: int, first: int) -> int:
        if committed >= first:
            return committed
        log.warning(
            "%s: %s begins at offset %d now, so %d offsets behind the committed one are gone",
            self._plan.name, partition, first, first - committed,
        )  # fmt: skip
        return first


class SpreadSource(SpreadWork):
    """A source that reads all its pieces again and again."""

    async def _rounds(self, run: AsyncJobRun) -> None:
        plugin = self._plan.plugin
        assert issubclass(plugin, SourceConnector)
        run.began()
        while not run.ending.is_set():
            pieces = await asyncio.to_thread(plugin.pieces, self._config)
            raise_first(await self._done([self._piece({**self._config, **each}) for each in pieces]))
            await wait(run, plugin.pause_s(self._config))


def task_after_pieces(plan: TaskPlan, config: Config, on_topics: OnTopics) -> SourceTask | None:
    """The task of a source that has only its first pieces read on Spark; None for other connectors."""
    if not issubclass(plan.plugin, SourceConnector):
        return None
    return plan.plugin.task_after_pieces(config, FirstPieces(plan, config, on_topics).read)


def spread(plan: TaskPlan, config: Config, on_topics: OnTopics) -> SpreadWork:
    """The work of a task with `ottla.runner=spark`."""
    kind: Any = SpreadSink if issubclass(plan.plugin, SinkConnector) else SpreadSource
    made: SpreadWork = kind(plan, config, on_topics)
    return made


def raise_first(done: Iterable[PieceDone]) -> None:
    """Raise the first fault. One that may not pass comes first: it ends the task."""
    faults = sorted((each.fault for each in done if each.fault is not None), key=lambda fault: fault.may_pass)
    if faults:
        raise TaskFault(faults[0])


async def wait(run: AsyncJobRun, seconds: float) -> None:
    """Wait for so long, or until the task is to end."""
    try:
        async with asyncio.timeout(seconds):
            await run.ending.wait()
    except TimeoutError:
        pass
