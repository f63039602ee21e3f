"""All flows and heartbeats of a property file as jobs of one process, with metrics, until all have ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from ottla.jobs.running import job_samples
from ottla.jobs.running_async import RunningAsync
from ottla.jobs.states import Event, JobState
from ottla.metrics.exposition import CONTENT_TYPE, render
from ottla.metrics.metric import Sample
from ottla.mirror.flow import Flow, Heartbeats
from ottla.mirror.measures import Measures
from ottla.mirror.options import Mirrors
from ottla.web.exchange import Request, Response
from ottla.web.routes import Router
from ottla.web.server import listening, serving

log = logging.getLogger("ottla.mirror")


class Mirroring:
    """Runs what a file says; for one event loop."""

    def __init__(self, mirrors: Mirrors) -> None:
        self.measures = Measures()
        one_by_one = asyncio.Lock()
        self.flows = [
            RunningAsync(each.name, Flow(each, self.measures, one_by_one).run, grace_ms=15_000)
            for each in mirrors.flows
        ]
        self.beats = [RunningAsync(f"{each.name} heartbeats", Heartbeats(each).run) for each in mirrors.heartbeats]

    async def run(self) -> int:
        """Run until all flows have ended; the exit status is 1 where one has failed for good."""
        beats = [asyncio.ensure_future(each.run()) for each in self.beats]
        codes = await asyncio.gather(*(each.run() for each in self.flows))
        self._stop(self.beats)
        await asyncio.gather(*beats)
        return max(codes)

    def stop(self) -> None:
        """Have all end: what is under way lands, and places are kept."""
        self._stop([*self.flows, *self.beats])

    @staticmethod
    def _stop(jobs: Iterable[RunningAsync]) -> None:
        for job in jobs:
            if job.status.state not in (JobState.STOPPED, JobState.FAILED):
                job.ask(Event.STOP)

    def samples(self) -> list[Sample]:
        """The metrics of all."""
        jobs = [sample for job in (*self.flows, *self.beats) for sample in job_samples(job.name, job.status)]
        return [*jobs, *self.measures.samples()]

    @asynccontextmanager
    async def exported(self, port: int) -> AsyncIterator[int]:
        """Serve `/metrics` on this machine's loopback address; the port that was taken."""

        async def metrics(_request: Request) -> Response:
            return Response(render(self.samples()).encode(), CONTENT_TYPE)

        bound = listening("127.0.0.1", port)
        async with serving(Router({"metrics": {"GET": metrics}}, lists_paths=True), bound):
            yield bound.getsockname()[1]
