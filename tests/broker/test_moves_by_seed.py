"""Moves, writes, deletions, crashes and failing disks drawn from a seed lose no acknowledged record."""

from __future__ import annotations

import errno
from random import Random

import pytest
from moving import alter, slow_down
from plain_requests import a_deletion_of_records
from sim_broker import SimBroker
from two_directories import MORE, create, produce

from ottla.records.reader import read_run
from ottla.storage.values import LogRead

OPERATIONS = ("write", "sync", "rename", "create", "remove", "sync names", "truncate", "read")


class Chaos:
    """One partition in one of three directories, and the offsets that were promised for it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = SimBroker(more_directories=MORE, log_segment_bytes="1048576")
        create(self.broker)
        self.acknowledged = self.start = 0
        self.crashes = self.moved = 0

    @property
    def served(self) -> bool:
        return ("t", 1) in self.broker.here.node.replicas.by_name

    def step(self) -> None:
        self.random.choice(
            (self.write, self.write, self.move, self.move, self.wait, self.hurry, self.delete, self.fail, self.restart)
        )()
        if self.broker.here.fatal is not None:
            self.restart()

    def write(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            if produce(self.broker, 1) == 0:
                self.acknowledged += 1

    def move(self) -> None:
        alter(self.broker, self.random.choice(("/data", *MORE)), 1)

    def wait(self) -> None:
        self.broker.loop.run_for(self.random.choice((1, 10, 100, 2000)))

    def hurry(self) -> None:
        slow_down(self.broker, self.random.choice((300, 3000, 1 << 40)))

    def delete(self) -> None:
        if self.served and self.acknowledged:
            request = a_deletion_of_records(self.random.randint(0, self.acknowledged), partition=1, timeout_ms=1000)
            answer = self.broker.ask(request).topics[0].partitions[0]
            if answer.error_code == 0:
                self.start = max(self.start, answer.low_watermark)
            if self.random.random() < 0.5:
                self.retain()

    def retain(self) -> None:
        node = self.broker.here.node
        try:
            node.replicas.upkeep.apply_retention()
        except OSError as error:  # as the round of moves does
            node.around.disk_failed(error)

    def fail(self) -> None:
        """Plan one error: a second one could prevent the mark that the first makes necessary."""
        self.broker.machine.disk.forget_faults()
        where, operation = self.random.choice(MORE), self.random.choice(OPERATIONS)
        self.broker.machine.disk.fail(operation, errno.EIO, where=where, skip=self.random.randrange(12))

    def restart(self) -> None:
        """Restart after a clean stop, a kill or a power cut; sometimes without one of the directories."""
        machine = self.broker.machine
        how = self.random.random()
        machine.disk.forget_faults()
        if how < 0.2:
            self.broker.here.stop(clean=True).result()
        machine.vanish()
        if how > 0.4:
            machine.disk.crash(self.random)
        if self.random.random() < 0.3:
            machine.disk.fail("read", errno.EIO, where=f"{self.random.choice(MORE)}/meta.properties")
        self.broker.start()
        self.crashes += 1
        self.check()

    def check(self) -> None:
        node = self.broker.here.node
        if not self.served:
            assert node.replicas.directories.failed
            return
        held = node.replicas.by_name["t", 1].log
        offset = held.log_start_offset
        assert self.start <= offset <= held.end_offset
        assert held.end_offset >= self.acknowledged
        self.acknowledged = held.end_offset  # records that were found may be read
        while offset < held.end_offset:
            read = held.read(offset, 1 << 20, limit_offset=held.end_offset)
            assert isinstance(read, LogRead)
            for record in read_run(read.data()):
                if record.offset >= offset:
                    assert record.offset == offset
                    offset += 1

    def end(self) -> None:
        """Let all disks work again, and check the promises."""
        self.broker.machine.disk.forget_faults()
        self.broker.restart(clean=False)
        self.broker.machine.disk.forget_faults()
        assert self.served
        self.check()
        slow_down(self.broker, 1 << 40)
        self.broker.loop.run_for(5000)
        self.check()
        disk = self.broker.machine.disk
        found = [name for path in ("/data", *MORE) for name in disk.list(path) if name.startswith("t-1")]
        assert found == ["t-1"]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_acknowledged_is_lost_whatever_comes(seed: int):
    chaos = Chaos(seed)
    for _ in range(40):
        chaos.step()
    chaos.end()
