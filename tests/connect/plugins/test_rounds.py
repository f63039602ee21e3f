"""A sink of rounds: what a commit covers, and what the target has already."""

import asyncio

import pytest

from ottla.connect.errors import DataException
from ottla.connect.plugins.base import RefusedRecords
from ottla.connect.plugins.rounds import Round, RoundSink, RoundTask
from ottla.connect.records import SinkRecord
from ottla.kernel.ids import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Target(RoundSink):
    def __init__(self, progress=()):
        self.kept, self.put_values, self.rounds, self.opened = dict(progress), [], [], []

    async def open(self, partitions):
        self.opened.append(set(partitions))

    async def progress(self, partitions):
        return self.kept

    async def put(self, batch):
        self.put_values += [each.value for each in batch]
        if bad := [each for each in batch if each.value == "bad"]:
            raise RefusedRecords([(each, DataException("bad")) for each in bad])

    async def commit(self, done):
        self.rounds.append(done)


def record(partition, offset, value="v"):
    return SinkRecord("t", partition, value=value, offset=offset)


def story(target, *steps):
    async def run():
        task = RoundTask(target)
        for step in steps:
            await step(task)

    asyncio.run(run())
    return target


def test_a_round_has_the_next_offset_of_each_partition_and_an_empty_one_is_none():
    target = story(
        Target(),
        lambda task: task.open({ZERO, ONE}),
        lambda task: task.put([record(0, 4), record(1, 0), record(0, 5)]),
        lambda task: task.flush(),
        lambda task: task.flush(),
    )
    assert target.rounds == [Round({ZERO: 6, ONE: 1}, 3)]


def test_records_before_the_targets_progress_are_not_put_again():
    steps = (lambda task: task.open({ZERO}), lambda task: task.put([record(0, 4, "old"), record(0, 5, "new")]))
    assert story(Target({ZERO: 5}), *steps).put_values == ["new"]


def test_a_round_that_is_open_is_committed_before_partitions_change():
    target = story(
        Target(),
        lambda task: task.open({ZERO}),
        lambda task: task.put([record(0, 0)]),
        lambda task: task.open({ZERO, ONE}),
    )
    assert target.rounds == [Round({ZERO: 1}, 1)]


def test_a_refused_record_is_behind_the_rounds_offset_and_not_counted():
    target = Target()

    async def put(task):
        with pytest.raises(RefusedRecords):
            await task.put([record(0, 0), record(0, 1, "bad")])

    story(target, lambda task: task.open({ZERO}), put, lambda task: task.flush())
    assert target.rounds == [Round({ZERO: 2}, 1)]
