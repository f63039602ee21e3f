"""The blocking driver: requests that stay unanswered, and processes with many files."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.core.effects import Ask, Finish, First, Start
from ottla.client.errors import ClientError
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic


def test_a_started_request_that_stays_unanswered_is_given_up_in_time(ours: str, name: str) -> None:
    """A broker whose machine is gone closes no connection: the consumer once waited for its Fetch without end."""
    with Admin(ours) as admin:
        admin.create_topic(name)
    wanted = FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)])
    request = FetchRequest(max_wait_ms=600_000, min_bytes=1, max_bytes=1, session_epoch=-1, topics=[wanted])

    async def story(cluster: Cluster) -> None:
        where = (await cluster.plan.leader(name, 0)).destination("fetch")
        handle = await Start(Ask(where, FetchRequest, FetchResponse, lambda _: request, max_version=12, timeout_ms=200))
        while (first := await First([handle], 50)) is None:
            pass
        assert first is handle
        with pytest.raises(ClientError):
            await Finish(first)

    with Cluster(ours) as cluster:
        cluster.run(story(cluster))


@pytest.fixture
def many_files() -> Iterator[None]:
    """So many open files that the next ones have numbers for which `select` has no place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as open_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2_048, hard)), hard))
        open_files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        last = 0
        while last < 1_100:
            last = os.open(os.devnull, os.O_RDONLY)
            open_files.callback(os.close, last)
        yield


@pytest.mark.usefixtures("many_files")
def test_a_client_serves_a_process_that_has_many_files_open(ours: str) -> None:
    with Cluster(ours) as cluster:
        assert cluster.topics() is not None
        assert cluster.brokers()
        cluster.refresh()


def test_a_call_after_an_interrupted_one_does_not_wait_for_its_answer(ours: str, name: str) -> None:
    with Admin(ours) as admin:
        admin.create_topic(name)

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Cluster(ours) as cluster:
            assert cluster.fetch(name, 0, 0, max_wait_ms=0).next_offset == 0
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                cluster.fetch(name, 0, 0, max_wait_ms=20_000)
            seen = cluster.driver.connection(cluster.leader(name, 0).destination("fetch"))
            assert seen._link.waiting == 0
            assert cluster.fetch(name, 0, 0, max_wait_ms=0).next_offset == 0
    finally:
        signal.signal(signal.SIGALRM, before)
