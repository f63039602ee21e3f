"""Many records at a time, with few steps in Python for each."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ottla.client.aio.producer import Producer
from ottla.client.produce.run import Run, RunPart
from ottla.kernel.ids import TopicPartition


class RunProducer(Producer):
    """A producer that takes runs of records, too."""

    async def produce_run(self, topic: str, run: Run) -> list[RunPart]:
        """Take the records of a run as `produce` takes one; the parts of them that went into one batch each.

        There are no futures: the listeners of a part's batch are called once it has its outcome. Records with keys of
        their own share a partition only where `run.partition` says so. Waits and raises as `produce` does.
        """
        run.check()
        assert run.partition is not None or not isinstance(run.keys, list)
        timestamps = int(time.time() * 1000) if run.timestamps is None else run.timestamps
        self._sender.require_open()
        available, count = await self._partitions(topic, run.partition)
        if run.partition is not None and not 0 <= run.partition < count:
            raise ValueError(f"topic {topic!r} has no partition {run.partition}: it has {count}")
        parts: list[RunPart] = []
        start, size = 0, min(run.size, self.producer_settings.buffer_memory)
        while start < len(run.values):
            async with self._changed:
                await self._wait_for_room(0 if start else size)
                self._sender.require_open()
                partition = run.partition
                if partition is None:
                    assert not isinstance(run.keys, list)
                    partition = self._accumulator.choose(topic, run.keys, available, count)
                where, now_ms = TopicPartition(topic, partition), self.cluster.plan.now_ms()
                batch, taken = self._accumulator.append_run(
                    where, timestamps, run.keys, run.values, run.headers, start=start, now_ms=now_ms
                )
                if self._sender.may_begin(where):
                    self._stirred.set()
            parts.append(RunPart(batch, batch.builder.records_count - taken, start, taken))
            start += taken
        return parts

    async def partitions_for(self, topic: str, keys: Sequence[bytes | None]) -> list[int]:
        """The partitions that the partitioner of the settings chooses for records with these keys."""
        available, count = await self._partitions(topic, None)
        return [self._accumulator.choose(topic, key, available, count) for key in keys]
