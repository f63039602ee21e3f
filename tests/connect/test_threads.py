"""Threads are waited for, whoever loses patience."""

import asyncio
import threading

import pytest

from ottla.connect.threads import ended


def test_a_thread_is_waited_for_also_by_one_who_is_cancelled():
    async def story():
        go_on, done = threading.Event(), []

        def work():
            go_on.wait()
            done.append(True)

        async def waiting():
            try:
                await asyncio.Event().wait()
            finally:
                await ended(asyncio.get_running_loop().run_in_executor(None, work))

        task = asyncio.create_task(waiting())
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        asyncio.get_running_loop().call_later(0.02, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == [True]

    asyncio.run(story())
