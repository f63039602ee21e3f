"""A polling task: turns, offsets, and what may pass."""

import asyncio
import logging

import pytest

from ottla.connect.errors import RetriableException
from ottla.connect.plugins.polling import PollingSource, PollingTask
from ottla.connect.records import SourceRecord


class Kept:
    def __init__(self, offsets=()):
        self.offsets = dict(offsets)

    async def read(self, partitions):
        return [self.offsets.get(each["p"]) for each in partitions]


class Script(PollingSource):
    """Answers with numbers from the position on; an exception in `fails` comes first."""

    def __init__(self, names, fails=(), most=2):
        self.names, self.fails, self.most, self.asked = list(names), list(fails), most, []

    async def partitions(self):
        return [{"p": name} for name in self.names]

    async def poll(self, position):
        self.asked.append(position.partition["p"])
        if self.fails:
            raise self.fails.pop()
        n = position.offset["n"] + 1 if position.offset else 0
        return [SourceRecord("t", value=n, source_offset={"n": n})] if n < self.most else []


def read(source, count, kept=(), **more):
    async def story():
        task = PollingTask(source, interval_ms=1, **more)
        await task.start(Kept(kept))
        found = []
        async with asyncio.timeout(60):
            while len(found) < count:
                found += await task.read()
        return [(each.source_partition["p"], each.value) for each in found]

    return asyncio.run(story())


def test_partitions_take_turns_and_begin_behind_their_kept_offsets():
    assert read(Script("ab"), 3, {"b": {"n": 0}}) == [("a", 0), ("b", 1), ("a", 1)]


def test_a_partition_that_comes_later_is_read_too():
    class Grows(Script):
        async def poll(self, position):
            found = await super().poll(position)
            if not found and self.names == ["a"]:
                self.names.append("b")
            return found

    assert read(Grows("a"), 4) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_a_failure_that_may_pass_is_told_and_the_partition_asked_again(caplog):
    with caplog.at_level(logging.WARNING, "ottla.connect"):
        assert read(Script("a", [RetriableException("busy")]), 1) == [("a", 0)]
    assert '{"p": "a"}: busy; asking again in' in caplog.text


def test_a_failure_that_goes_on_ends_the_task():
    with pytest.raises(RetriableException, match="busy"):
        read(Script("a", [RetriableException("busy")] * 3), 1, retries=2)
