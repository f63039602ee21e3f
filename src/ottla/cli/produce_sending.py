"""Sends what `ottla produce` has read, and knows what became of it."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.cli.command import counted
from ottla.cli.faults import BadInput, explain
from ottla.client.errors import ClientError
from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.client.produce.run import Run
from ottla.kernel.errors import ApiError

if TYPE_CHECKING:
    from ottla.client.blocking.runs import RunDelivery, RunProducer
    from ottla.client.produce.accumulator import Delivered

Look = Callable[[Run], None]
"""Called with each run before it is sent."""


class Outcomes:
    """The outcomes of the records that were sent. A record is forgotten once its outcome is known, unless it is kept.

    An input without an end thus takes bounded memory, and its first failure is raised while it goes on.
    """

    def __init__(self, *, keep: bool) -> None:
        self.written: Counter[int] = Counter()
        """The number of records by partition."""
        self.kept: list[Delivered] = []
        self._keep = keep
        self._waiting: deque[RunDelivery] = deque()

    def add(self, delivery: RunDelivery) -> None:
        """Take records that were sent; raises the error of earlier ones."""
        self._waiting.append(delivery)
        while self._waiting and self._waiting[0].done:
            self._take()

    def finish(self) -> None:
        """Wait for all sent records; raise the first error."""
        while self._waiting:
            self._take()

    def count_failed(self) -> int:
        """Wait for all sent records without an outcome yet; return the number of failed ones."""
        failed = 0
        while self._waiting:
            count = self._waiting[0].count
            try:
                self._take()
            except (ApiError, ClientError):
                failed += count
        return failed

    def _take(self) -> None:
        delivery = self._waiting.popleft()
        places = delivery.result()
        self.written[delivery.partition] += delivery.count
        if self._keep:
            self.kept += places


def send_each(producer: RunProducer, topic: str, runs: Iterable[Run], outcomes: Outcomes, look: Look) -> int:
    """Send records, each for itself; the exit code."""
    try:
        _send_all(producer, topic, runs, outcomes, look)
        producer.flush()
        outcomes.finish()
    except BadInput as fault:
        producer.flush()
        outcomes.finish()
        written = outcomes.written.total()
        before = "the record before it is" if written == 1 else f"the {written} records before it are"
        raise BadInput(f"{fault}; {before if written else 'nothing is'} written to {topic}") from None
    except (ApiError, ClientError) as fault:
        producer.flush()
        failed = outcomes.count_failed()
        written = outcomes.written.total()
        if not written and not failed:
            raise
        others = f"; {counted(failed, 'more record')} failed" if failed else ""
        how_many = f"{counted(written, 'record')} {'is' if written == 1 else 'are'}"
        sys.stderr.write(f"{explain(fault)}{others}; {how_many} written to {topic}\n")
        return 1
    return 0


def send_all_or_none(producer: RunProducer, topic: str, runs: Iterable[Run], outcomes: Outcomes, look: Look) -> int:
    """Send in one transaction: after any error readers of committed records see nothing of it."""
    producer.init_transactions()
    try:
        with producer.transaction():
            _send_all(producer, topic, runs, outcomes, look)
    except BadInput as fault:
        raise BadInput(f"{fault}; the transaction is aborted: nothing is written to {topic}") from None
    outcomes.finish()
    return 0


def _send_all(producer: RunProducer, topic: str, runs: Iterable[Run], outcomes: Outcomes, look: Look) -> None:
    for run in runs:
        try:
            run.check()
            look(run)
            for part in _spread(producer, topic, run):
                for delivery in producer.produce_run(topic, part):
                    outcomes.add(delivery)
        except ValueError as fault:  # there is no such partition, or the time is impossible
            raise BadInput(str(fault)) from None


def _spread(producer: RunProducer, topic: str, run: Run) -> Iterator[Run]:
    """The records of a run by their partitions, in their order; as they are where all go to one."""
    keys = run.keys
    by_batch = not isinstance(keys, list) and producer.producer_settings.partitioner is murmur2_partitioner
    if by_batch or run.partition is not None:
        yield run
        return
    _, count = producer.partitions_of(topic)
    if count == 1:
        yield run._replace(partition=0)
        return
    places: dict[int, list[int]] = {}
    for index in range(len(run.values)):
        key = keys[index] if isinstance(keys, list) else keys
        places.setdefault(producer.choose_partition(topic, key), []).append(index)
    for partition, indexes in places.items():
        yield run._replace(
            values=[run.values[index] for index in indexes],
            keys=[keys[index] for index in indexes] if isinstance(keys, list) else keys,
            timestamps=(
                [run.timestamps[index] for index in indexes] if isinstance(run.timestamps, list) else run.timestamps
            ),
            partition=partition,
        )
