"""The clusters of the race, three brokers each on this machine; any broker can be stopped and brought back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from tests.coordination.zookeeper_ensemble import ZookeeperEnsemble, zookeeper_jars
from tests.ports import free_port

from bench.brokers import (
    KAFKA_JAVA,
    KAFKA_PROPERTIES,
    answers_metadata,
    cluster_id,
    family,
    kafka_libs,
    process_cpu_seconds,
    resident_mb,
)

BROKERS = 3
WITHIN_S = 120.0
JAVA = tuple(text.replace("Xms1G", "Xms512M").replace("Xmx1G", "Xmx512M") for text in KAFKA_JAVA)


class Cluster(ABC):
    """Three brokers in folders of their own. A new topic has a replica on each and min.insync.replicas=2."""

    name: str
    address: str
    """The addresses of all brokers, for `bootstrap.servers`."""
    replicas = BROKERS
    topic_configuration: ClassVar[dict[str, str]] = {"min.insync.replicas": "2"}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hanging: int | None = None

    @property
    def client(self) -> dict[str, str]:
        """The settings by which the driver reaches the cluster."""
        return {"brokers": self.address}

    def start(self) -> float:
        """Start; return the seconds until every broker answered."""
        begin = time.monotonic()
        self.start_all()
        return time.monotonic() - begin

    @abstractmethod
    def start_all(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def pids(self) -> dict[int, int]:
        """The process of every broker that runs, by its id."""

    @abstractmethod
    def bring_back(self, broker: int) -> None:
        """Make a broker run again after its process was ended or stopped."""

    @abstractmethod
    def configuration(self) -> dict[str, str]:
        """The settings that a reader needs to repeat the run."""

    def end(self, broker: int, how: signal.Signals) -> None:
        """Send the signal to one broker's process and return at once."""
        pid = self.pids()[broker]
        os.kill(pid, how)
        self._hanging = pid if how is signal.SIGSTOP else None

    def go_on(self) -> bool:
        """Continue the process that was stopped by SIGSTOP; False if there was none."""
        pid, self._hanging = self._hanging, None
        if pid is not None:
            os.kill(pid, signal.SIGCONT)
        return pid is not None

    def cpu_seconds(self) -> float:
        """Processor time of all brokers and their children, user and system."""
        return sum(process_cpu_seconds(child) for pid in self.pids().values() for child in family(pid))

    def resident_mb(self, field: str = "VmRSS") -> float:
        """Resident memory of all brokers together, in 10^6 bytes; `VmHWM` is its peak."""
        return sum(resident_mb(pid, field) for pid in self.pids().values())


class OttlaCluster(Cluster):
    """`ottla cluster up`, which brings brokers back by itself."""

    name = "ottla"
    options: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.process: subprocess.Popen[bytes] | None = None

    def start_all(self) -> None:
        command = [sys.executable, "-m", "ottla", "cluster", "up", "--data", str(self.folder), *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: len(self._brokers()) == BROKERS)
        self.address = ",".join(f"{each['host']}:{each['port']}" for each in self._brokers().values())

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self) -> dict[int, int]:
        return {number: int(str(each["pid"])) for number, each in self._brokers().items()}

    def bring_back(self, broker: int) -> None:
        self.go_on()
        until(lambda: broker in self._brokers())

    def configuration(self) -> dict[str, str]:
        return {"command": "ottla cluster up --data DIR"}

    def _brokers(self) -> dict[int, dict[str, object]]:
        path = self.folder / "cluster.json"
        found = json.loads(path.read_text())["brokers"] if path.exists() else []
        return {each["id"]: each for each in found}


class ZookeeperCluster(OttlaCluster):
    """The same with the metadata in ZooKeeper, as on several machines, although all run on this one."""

    name = "ottla on ZooKeeper"

    def start_all(self) -> None:
        libs = zookeeper_jars()
        if libs is None:
            raise RuntimeError("ZooKeeper's jars are not here: run `tools/setup.sh zookeeper`")
        servers = self.folder / "zookeeper"
        servers.mkdir()
        self._ensemble = ZookeeperEnsemble(libs, servers)
        self.options = ("--zookeeper", f"{self._ensemble.hosts}/cluster")
        super().start_all()

    def stop(self) -> None:
        super().stop()
        self._ensemble.stop()


class KafkaCluster(Cluster):
    """Three nodes of Apache Kafka, each broker and controller, with the shipped configuration."""

    name = "kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ports = {number: free_port() for number in range(1, BROKERS + 1)}
        self.controllers = {number: free_port() for number in self.ports}
        self.address = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start_all(self) -> None:
        cluster = cluster_id()
        for number in self.ports:
            folder = self.folder / str(number)
            folder.mkdir(parents=True)
            (folder / "server.properties").write_text(self._properties(number, folder / "data"))
            command = ["java", "-cp", f"{kafka_libs()}/*", "kafka.tools.StorageTool", "format", "-t", cluster]
            subprocess.run([*command, "-c", str(folder / "server.properties")], check=True, capture_output=True)
        for number in self.ports:
            self._run(number)
        until(lambda: all(map(answers_metadata, self.ports.values())))

    def _properties(self, number: int, data: Path) -> str:
        text = KAFKA_PROPERTIES.format(port=self.ports[number], controller_port=self.controllers[number], data=data)
        text = text.replace("node.id=1", f"node.id={number}")
        for topic in ("offsets.topic", "transaction.state.log"):
            text = text.replace(f"{topic}.replication.factor=1", f"{topic}.replication.factor={BROKERS}")
        text = text.replace("transaction.state.log.min.isr=1", "transaction.state.log.min.isr=2")
        kept = [line for line in text.splitlines() if not line.startswith("controller.quorum")]
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.controllers.items())
        return "\n".join([*kept, f"controller.quorum.voters={voters}", ""])

    def _run(self, number: int) -> None:
        folder = self.folder / str(number)
        command = ["java", *JAVA, "-cp", f"{kafka_libs()}/*", "kafka.Kafka", str(folder / "server.properties")]
        with (folder / "out.log").open("ab") as log:
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self) -> dict[int, int]:
        return {number: process.pid for number, process in self.processes.items() if process.poll() is None}

    def bring_back(self, broker: int) -> None:
        if not self.go_on():
            self.processes[broker].wait(60)
            self._run(broker)

    def configuration(self) -> dict[str, str]:
        return {"java": " ".join(JAVA), "server.properties": self._properties(1, self.folder / "1" / "data")}


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition; raise RuntimeError if it does not hold within two minutes."""
    end = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError("it did not come to be in time")
        time.sleep(0.02)
