"""The brokers of the race as child processes: start, readiness, processor time, memory, stop."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
READY_WITHIN_S = 60.0

# Apache Kafka 4.3's own config/server.properties, except for addresses, the folder, and the delay before the files of a
# deleted topic are deleted: after a minute that would fall into a later line (see Rig.drive).
KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
log.segment.delete.delay.ms=1000
"""

KAFKA_JAVA = (
    "-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip


class Broker(ABC):
    """One broker in a folder of its own, on a port of its own."""

    name: str
    replicas = 1
    """The number of replicas of a new topic."""
    topic_configuration: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def client(self) -> dict[str, str]:
        """The settings by which the driver reaches the broker."""
        return {"brokers": self.address}

    @abstractmethod
    def prepare(self) -> None:
        """Do the work before the start that is not timed."""

    @abstractmethod
    def command(self) -> list[str]:
        """The process to start."""

    @abstractmethod
    def configuration(self) -> dict[str, str]:
        """The settings that a reader needs to repeat the run."""

    def start(self) -> float:
        """Start in an empty folder; return the seconds until the first Metadata answer that names a broker."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.prepare()
        log = (self.folder / "out.log").open("wb")
        begin = time.monotonic()
        self.process = subprocess.Popen(
            self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        while not answers_metadata(self.port):
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended at its start; see {self.folder / 'out.log'}")
            if time.monotonic() > begin + READY_WITHIN_S:
                self.stop()
                raise RuntimeError(f"{self.name} was not ready in time; see {self.folder / 'out.log'}")
            time.sleep(0.002)
        return time.monotonic() - begin

    def stop(self) -> None:
        """Ask the process to end; kill it if it does not."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def cpu_seconds(self) -> float:
        """Processor time of the process and its children, user and system."""
        return sum(process_cpu_seconds(pid) for pid in family(self.pid))

    def resident_mb(self, field: str = "VmRSS") -> float:
        """Resident memory in 10^6 bytes; `VmHWM` is its peak."""
        return resident_mb(self.pid, field)


class OttlaBroker(Broker):
    """`ottla start`, with its defaults."""

    name = "ottla"

    def prepare(self) -> None:
        """Do nothing: the start makes its own folder."""

    def command(self) -> list[str]:
        ottla = Path(sys.executable).with_name("ottla")
        return [str(ottla), "start", "--data", str(self.folder / "data"), "--port", str(self.port), "--http-port", "0"]

    def configuration(self) -> dict[str, str]:
        return {"command": "ottla start --data DIR --port PORT --http-port 0"}


class KafkaBroker(Broker):
    """Apache Kafka: one KRaft node, the configuration that it ships, 1 GiB of heap."""

    name = "kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.controller_port = free_port()

    @property
    def properties(self) -> str:
        """The text of its configuration, with names for what differs from run to run."""
        return KAFKA_PROPERTIES

    def prepare(self) -> None:
        properties = self.folder / "server.properties"
        properties.write_text(
            self.properties.format(port=self.port, controller_port=self.controller_port, data=self.folder / "data")
        )
        command = ["java", "-cp", f"{kafka_libs()}/*", "kafka.tools.StorageTool", "format", "--standalone"]
        command += ["-t", cluster_id(), "-c", str(properties)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"Apache Kafka's storage tool failed: {result.stderr[-500:]}")

    def command(self) -> list[str]:
        return ["java", *KAFKA_JAVA, "-cp", f"{kafka_libs()}/*", "kafka.Kafka", str(self.folder / "server.properties")]

    def configuration(self) -> dict[str, str]:
        return {"java": " ".join(KAFKA_JAVA), "server.properties": KAFKA_PROPERTIES}


class BareBroker(Broker):
    """`bench/bare.py`: what a broker does at the least, and nothing else."""

    name = "bare"

    def prepare(self) -> None:
        """Do nothing: it makes its own folder."""

    def command(self) -> list[str]:
        bare = ROOT / "bench" / "bare.py"
        return [sys.executable, str(bare), "--data", str(self.folder / "data"), "--port", str(self.port)]

    def configuration(self) -> dict[str, str]:
        return {"command": "python -m bench.bare --data DIR --port PORT"}


def kafka_libs() -> Path:
    """Apache Kafka's jars, as `make bench` fetched them."""
    for folder in (os.environ.get("OTTLA_KAFKA_JARS"), ROOT / ".cache" / "kafka" / "libs"):
        if folder and (Path(folder) / "kafka_2.13-4.3.1.jar").exists():
            return Path(folder)
    raise RuntimeError("Apache Kafka's jars are not here: run `tools/setup.sh kafka`")


def cluster_id() -> str:
    """A random id in Kafka's text form. It never begins with a dash, which tools would take for an option."""
    import base64

    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return made


def answers_metadata(port: int) -> bool:
    """True if the broker answers a Metadata request (version 1, no topics) and names at least one broker."""
    client_id = b"race"
    body = struct.pack(">hhih", 3, 1, 1, len(client_id)) + client_id + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            size = struct.unpack(">i", received(connection, 4))[0]
            answer = received(connection, size)
    except OSError:
        return False
    return int(struct.unpack_from(">i", answer, 4)[0]) > 0


def received(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes; raise ConnectionError if the other side closes first."""
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("closed")
        parts += part
    return parts


def family(pid: int) -> list[int]:
    """The process and its living descendants."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def process_cpu_seconds(pid: int) -> float:
    """User and system time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[place]) for place in (11, 12, 13, 14)) / TICKS


def resident_mb(pid: int, field: str = "VmRSS") -> float:
    """Resident memory of one process in 10^6 bytes; `VmHWM` is its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"process {pid} has ended")
