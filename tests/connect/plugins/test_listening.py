"""The inbox of records that others send."""

import asyncio

import pytest

from ottla.connect.plugins.listening import Full, Inbox, TaskEnded, record_time
from ottla.connect.records import SourceRecord


def test_a_sender_whose_clock_is_ahead_gets_the_time_of_arrival():
    assert record_time(1_000, 2_000) == 1_000
    assert record_time(62_000, 2_000) == 62_000
    assert record_time(62_001, 2_000) == record_time(None, 2_000) == record_time(-1, 2_000) == 2_000


def records(count):
    return [SourceRecord("t", value=n) for n in range(count)]


def test_a_sender_learns_when_the_last_of_its_records_is_in_kafka():
    async def story():
        inbox = Inbox(10)
        safe = inbox.offer(records(2))
        first, second = await inbox.take()
        inbox.acknowledged([first])
        assert not safe.done()
        inbox.acknowledged([second])
        await safe
        assert inbox.pending == 0

    asyncio.run(story())


def test_records_beyond_the_bound_are_refused_until_others_are_in_kafka():
    async def story():
        inbox = Inbox(2)
        inbox.offer(records(2))
        with pytest.raises(Full):
            inbox.offer(records(1))
        waiting = asyncio.ensure_future(inbox.room())
        inbox.acknowledged(await inbox.take())
        await waiting
        inbox.offer(records(1))

    asyncio.run(story())


def test_a_list_beyond_the_bound_is_taken_alone():
    async def story():
        inbox = Inbox(2)
        inbox.offer(records(3))
        assert len(await inbox.take()) == 3

    asyncio.run(story())


def test_senders_that_wait_at_the_end_are_told():
    async def story():
        inbox = Inbox(2)
        safe = inbox.offer(records(1))
        inbox.end()
        with pytest.raises(TaskEnded):
            await safe
        with pytest.raises(TaskEnded):
            inbox.offer(records(1))

    asyncio.run(story())
