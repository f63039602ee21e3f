"""Three broker processes, each with its own disk whose power can be cut, and questions to all of them."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.clients import PARTITIONS, TOPIC
from tests.faults.secured import Secured
from tests.storage.image_disk import ImageDisk

NUMBERS = (1, 2, 3)
STEP_S = 0.05


class Stuck(Exception):
    """A condition did not hold within the time allowed."""


def until(holds: Callable[[], object], what: str, patience_s: float = 120) -> None:
    """Wait for a condition. The timeout counts looks, so that a pause of the whole machine does no harm."""
    for _ in range(int(patience_s / STEP_S)):
        if holds():
            return
        time.sleep(STEP_S)
    raise Stuck(f"{what}: not within {patience_s:.0f} s")


class Broker:
    """One `ottla start`; its output goes to files beside its disk."""

    def __init__(
        self,
        number: int,
        disk: ImageDisk,
        folder: Path,
        address: str,
        options: Sequence[str],
        prefix: Sequence[str] = (),
        secured: Secured | None = None,
    ) -> None:
        self.number = number
        self.disk = disk
        self.address = address
        self._ready = folder / f"broker-{number}.ready"
        self._log = folder / f"broker-{number}.log"
        start = [sys.executable, "-m", "ottla", "start", "--id", str(number), "--http-port", "0"]
        if secured is None:
            start += ["--listen", address, "--insecure"]  # its network is the namespaces of this run
        else:
            start += secured.options(number, address)
        self._command = [*prefix, *start, "--data", str(disk.mount / "data"), *options]
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        with self._ready.open("wb") as ready, self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=ready, stderr=log)

    def is_ready(self) -> bool:
        if self.fell():
            raise Stuck(f"broker {self.number} ended by itself: {self.log()[-2000:]}")
        return self.running and b" ready: " in self._ready.read_bytes()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def fell(self) -> bool:
        """True if it has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Stop it by SIGTERM, so that it hands over first."""
        assert self.process is not None
        self.process.terminate()
        until(lambda: not self.running, f"broker {self.number} stops")
        self.process = None

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def stands(self) -> bool:
        """True if no thread runs or can run before SIGCONT; a thread may still wait for the disk."""
        assert self.process is not None
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                if (task / "stat").read_text().rpartition(")")[2].split()[0] not in "TtDZX":
                    return False
        return True


def cut_power(brokers: Iterable[Broker], disks: Iterable[ImageDisk]) -> None:
    """Simulate a power cut: at one moment the brokers stop and the disks take no more writes.

    The brokers are stopped first. Otherwise one could acknowledge a sync that only seemed to succeed because the
    file system was shut down.
    """
    struck, gone = [broker for broker in brokers if broker.running], list(disks)
    for broker in struck:
        broker.signal(signal.SIGSTOP)
    while not all(broker.stands() for broker in struck):
        pass
    for disk in gone:
        disk.cut()
    for broker in struck:
        broker.kill()
    for disk in gone:
        disk.unmount()
        disk.mount_again()


class Brokers:
    """The three brokers."""

    def __init__(self, brokers: Sequence[Broker], secured: Secured | None = None) -> None:
        self._secured = secured
        self.of = {broker.number: broker for broker in brokers}
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.of.values())

    @property
    def way(self) -> dict[str, str]:
        """The settings by which clients reach the brokers."""
        return {"bootstrap.servers": self.bootstrap, **({} if self._secured is None else self._secured.client)}

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            settings = {**self.way, "log_level": 0, "reconnect.backoff.max.ms": 500}
            self._admin = AdminClient({**settings, "socket.timeout.ms": 5000})
        return self._admin

    def start(self) -> None:
        """Start the brokers that do not run; return once they serve."""
        started = [broker for broker in self.of.values() if not broker.running]
        for broker in started:
            broker.spawn()
        for broker in started:
            until(broker.is_ready, f"broker {broker.number} is ready")

    def create_topic(self, config: Mapping[str, str]) -> None:
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2", **config})
        self.admin.create_topics([topic])[TOPIC].result(60)

    def are_whole(self) -> bool:
        """Every partition of every topic has a leader and three replicas in sync; all brokers run."""
        for broker in self.of.values():
            if broker.fell():
                raise Stuck(f"broker {broker.number} ended by itself: {broker.log()[-2000:]}")
        with contextlib.suppress(KafkaException):
            topics = self.admin.list_topics(timeout=2).topics.values()
            parts = [part for topic in topics for part in topic.partitions.values()]
            return bool(parts) and all(part.leader in self.of and len(part.isrs) == 3 for part in parts)
        return False

    def some_leader(self, partition: int) -> int | None:
        with contextlib.suppress(KafkaException):
            leader: int = self.admin.list_topics(TOPIC, timeout=2).topics[TOPIC].partitions[partition].leader
            return leader if leader in self.of else None
        return None

    def differing(self) -> list[str]:
        """Partitions whose replicas do not hold the same bytes; used while nobody writes."""
        found = []
        for name in (f"{TOPIC}-{number}" for number in range(PARTITIONS)):
            sums = {number: _digest(broker.disk.mount / "data" / name) for number, broker in self.of.items()}
            if len(set(sums.values())) > 1:
                found.append(f"{name}: {sums}")
        return found


def _digest(partition: Path) -> str:
    found = hashlib.sha256()
    for segment in sorted(partition.glob("*.log")):
        found.update(segment.read_bytes())
    return found.hexdigest()[:12]
