"""The faults of the mix: each lasts during a `with` block, and is healed at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.faults.brokers import NUMBERS, Broker, Brokers, cut_power, until
from tests.faults.clients import PARTITIONS
from tests.faults.hosts import Hosts
from zookeeper_ensemble import ZookeeperEnsemble

ZOOKEEPER = "zookeeper"
_BLKIO = Path("/sys/fs/cgroup/blkio")


class Field(NamedTuple):
    """The parts that faults act on."""

    brokers: Brokers
    hosts: Hosts
    ensemble: ZookeeperEnsemble
    random: Random

    def any(self) -> Broker:
        return self.brokers.of[self.random.choice(NUMBERS)]

    def leader(self) -> Broker:
        """The leader of a random partition; any broker if the leader is unknown."""
        leader = self.brokers.some_leader(self.random.randrange(PARTITIONS))
        return self.brokers.of[leader] if leader is not None else self.any()


def host_of(broker: Broker) -> str:
    return f"broker{broker.number}"


Begun = Iterator[str]


@contextlib.contextmanager
def _kill(field: Field) -> Begun:
    """Kill a broker by SIGKILL, as all kills here do."""
    struck = field.any()
    struck.kill()
    yield f"broker {struck.number}"
    field.brokers.start()


@contextlib.contextmanager
def _kill_leader(field: Field) -> Begun:
    struck = field.leader()
    struck.kill()
    yield f"broker {struck.number}"
    field.brokers.start()


@contextlib.contextmanager
def _kill_all(field: Field) -> Begun:
    for broker in field.brokers.of.values():
        broker.kill()
    yield "all brokers"
    field.brokers.start()


@contextlib.contextmanager
def _stop(field: Field) -> Begun:
    struck = field.any()
    struck.stop()
    yield f"broker {struck.number}"
    field.brokers.start()


@contextlib.contextmanager
def _pause(field: Field) -> Begun:
    struck = field.leader()
    struck.signal(signal.SIGSTOP)
    yield f"broker {struck.number}"
    struck.signal(signal.SIGCONT)


@contextlib.contextmanager
def _one_way(field: Field) -> Begun:
    source, sink = field.random.sample(NUMBERS, 2)
    with field.hosts.dropped((f"broker{source}", f"broker{sink}")):
        yield f"from broker {source} to broker {sink}"


@contextlib.contextmanager
def _isolate(field: Field) -> Begun:
    struck = field.leader()
    others = [f"broker{number}" for number in NUMBERS if number != struck.number]
    both = [pair for other in others for pair in ((host_of(struck), other), (other, host_of(struck)))]
    with field.hosts.dropped(*both):
        yield f"broker {struck.number} from both others"


@contextlib.contextmanager
def _bridge(field: Field) -> Begun:
    one, two = (f"broker{number}" for number in field.random.sample(NUMBERS, 2))
    with field.hosts.dropped((one, two), (two, one)):
        yield f"{one} and {two}"


@contextlib.contextmanager
def _zookeeper_cut(field: Field) -> Begun:
    struck = field.leader()
    with field.hosts.dropped((host_of(struck), ZOOKEEPER), (ZOOKEEPER, host_of(struck))):
        yield f"broker {struck.number}"


@contextlib.contextmanager
def _alone(field: Field) -> Begun:
    """Cut a broker off from the others and from ZooKeeper, but not from clients."""
    struck = field.leader()
    ends = [ZOOKEEPER, *(f"broker{number}" for number in NUMBERS if number != struck.number)]
    both = [pair for end in ends for pair in ((host_of(struck), end), (end, host_of(struck)))]
    with field.hosts.dropped(*both):
        yield f"broker {struck.number}"


@contextlib.contextmanager
def _zookeeper_leader(field: Field) -> Begun:
    leader = field.ensemble.leader()
    if leader is None:
        field.ensemble.wait_until_whole()
        leader = field.ensemble.leader()
    assert leader is not None
    field.ensemble.kill(leader)
    yield f"server {leader}"
    field.ensemble.wait_until_whole()


@contextlib.contextmanager
def _disk_full(field: Field) -> Begun:
    struck = field.any()
    ballast = struck.disk.mount / "ballast"
    try:
        with ballast.open("wb") as file:
            for size in (1 << 24, 1 << 20, 1 << 16, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
        yield f"broker {struck.number}"
    finally:
        ballast.unlink()


@contextlib.contextmanager
def _disk_slow(field: Field) -> Begun:
    struck = field.any()
    assert struck.process is not None
    rate = field.random.choice((16, 64, 256)) << 10
    group = _BLKIO / f"ottla-{os.getpid()}"
    group.mkdir(exist_ok=True)
    limit = group / "blkio.throttle.write_bps_device"
    limit.write_text(f"{struck.disk.device} {rate}")
    (group / "cgroup.procs").write_text(str(struck.process.pid))
    try:
        yield f"broker {struck.number}, {rate >> 10} KiB/s"
    finally:
        limit.write_text(f"{struck.disk.device} 0")
        (_BLKIO / "cgroup.procs").write_text(str(struck.process.pid))
        until(lambda: _removed(group), "the group of the slow disk is empty")


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


@contextlib.contextmanager
def _power_one(field: Field) -> Begun:
    struck = field.leader()
    cut_power([struck], [struck.disk])
    yield f"broker {struck.number}"
    field.brokers.start()


@contextlib.contextmanager
def _power_all(field: Field) -> Begun:
    brokers = field.brokers.of.values()
    cut_power(brokers, [broker.disk for broker in brokers])
    yield "all brokers"
    field.brokers.start()


class Fault(NamedTuple):
    """A fault: how it begins, and its duration in seconds."""

    begin: Callable[[Field], AbstractContextManager[str]]
    shortest_s: float
    longest_s: float
    now_and_then_s: float = 0.0
    """The duration of every fifth such fault; a lagging replica leaves the in-sync set after 30 to 45 s."""

    def draw_s(self, random: Random) -> float:
        lasts_s = random.uniform(self.shortest_s, self.longest_s)
        return self.now_and_then_s if random.random() < 0.2 and self.now_and_then_s else lasts_s


FAULTS = {
    "kill": Fault(_kill, 0, 8),
    "kill-leader": Fault(_kill_leader, 0, 8),
    "kill-all": Fault(_kill_all, 0, 2),
    "stop": Fault(_stop, 0, 3),
    "pause": Fault(_pause, 0.5, 10, 48),
    "one-way": Fault(_one_way, 1, 12, 48),
    "isolate": Fault(_isolate, 1, 12, 48),
    "bridge": Fault(_bridge, 1, 12, 48),
    "alone": Fault(_alone, 1, 12),
    "zookeeper-cut": Fault(_zookeeper_cut, 1, 12),
    "zookeeper-leader": Fault(_zookeeper_leader, 0, 3),
    "disk-full": Fault(_disk_full, 1, 8),
    "disk-slow": Fault(_disk_slow, 2, 8),
    "power-one": Fault(_power_one, 0, 4),
    "power-all": Fault(_power_all, 0, 2),
}


def possible() -> list[str]:
    """The kinds that this kernel allows; print those that it does not."""
    if _can_slow_disks():
        return list(FAULTS)
    print(f"faults: without disk-slow: no group under {_BLKIO} can be made that slows a disk", file=sys.stderr)
    return [kind for kind in FAULTS if kind != "disk-slow"]


def _can_slow_disks() -> bool:
    probe = _BLKIO / f"ottla-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return (probe / "blkio.throttle.write_bps_device").exists()
    finally:
        probe.rmdir()
