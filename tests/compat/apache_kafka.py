"""Apache Kafka itself, as an oracle: one KRaft node started from a folder of jars, and its command-line tools.

The folder is `OTTLA_KAFKA_JARS`, else `.cache/kafka/libs` of this project.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from secured_brokers import SecuredBrokers
from tests.java_tools import QUICK
from tests.ports import free_port

from ottla.cli.secure_texts import LISTENER
from ottla.client.blocking.admin import Admin
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError

ROOT = Path(__file__).resolve().parents[2]
NODE_ID = 1
TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
}


def jars_folder() -> Path:
    return Path(os.environ.get("OTTLA_KAFKA_JARS", str(ROOT / ".cache" / "kafka" / "libs")))


def why_not() -> str | None:
    """The reason why Apache Kafka cannot run here, or None."""
    if shutil.which("java") is None:
        return "no `java` on the PATH: install a Java 17 runtime"
    if not list(jars_folder().glob("kafka_2.13-*.jar")):
        return f"no Apache Kafka jars in {jars_folder()}: set OTTLA_KAFKA_JARS to a folder that has them"
    return None


class KafkaFailed(Exception):
    """Apache Kafka did not start, or one of its tools could not run; the text has its last words."""


class ApacheKafka:
    """One Apache Kafka node, broker and controller at once, on a free port of 127.0.0.1.

    Use as a context manager, or call `start` and `stop`. `settings` are lines of server.properties. With `secured` it
    listens with SASL_SSL.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        secured: SecuredBrokers | None = None,
        *,
        heap: str = "512m",
        folder: Path | None = None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self.port = free_port()
        self.heap = heap
        self.settings = settings or {}
        self.secured = secured
        self.output = self.folder / "server.log"
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The log directory."""
        return self.folder / "data"

    @property
    def listener(self) -> str:
        """The listener for clients, as `listeners` has it."""
        return f"{'PLAINTEXT' if self.secured is None else LISTENER}://{self.bootstrap}"

    def __enter__(self) -> ApacheKafka:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, timeout: float = 300.0) -> ApacheKafka:
        """Format the storage, start the node and return once it answers ApiVersions and leads as a broker."""
        reason = why_not()
        if reason is not None:
            raise KafkaFailed(reason)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if not (self.data / "meta.properties").exists():
            self._format(properties)
        with self.output.open("ab") as log:
            self._server = subprocess.Popen(
                [*self._java(self.heap), "kafka.Kafka", str(properties)], stdout=log, stderr=log, cwd=self.folder
            )
        deadline = time.monotonic() + timeout
        while not self._ready():
            if self._server.poll() is not None:
                raise KafkaFailed(f"Apache Kafka ended with {self._server.returncode}:\n{self._last_words()}")
            if time.monotonic() > deadline:
                self.stop(keep=True)
                raise KafkaFailed(f"Apache Kafka was not ready within {timeout:.0f} s:\n{self._last_words()}")
            time.sleep(0.1)
        return self

    def stop(self, *, keep: bool = False) -> None:
        """End the node; its folder goes too unless `keep`."""
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(120)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End the node at once; its folder stays."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def tool(
        self, name: str, arguments: Sequence[str], *, input_text: str | None = None, timeout: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own command-line tools, `kafka-topics` and so on."""
        return run_tool(name, arguments, input_text=input_text, timeout=timeout)

    def _properties(self) -> dict[str, str]:
        controller = free_port()
        return {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "listeners": f"{self.listener},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": self.listener,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "offsets.topic.num.partitions": "5",
            "group.initial.rebalance.delay.ms": "0",
            **({} if self.secured is None else self.secured.options_of_apache()),
            **self.settings,
        }

    def _format(self, properties: Path) -> None:
        done = subprocess.run(
            [
                *self._java("128m"),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qg",
                "-c",
                properties,
                *([] if self.secured is None else self.secured.users_of_apache()),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=self.folder,
            check=False,
        )
        if done.returncode != 0:
            raise KafkaFailed(f"formatting failed:\n{done.stdout}{done.stderr}")

    def _java(self, heap: str) -> list[str]:
        quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"] if heap == "128m" else ["-XX:+UseG1GC"]
        return ["java", f"-Xmx{heap}", *quick, "-cp", f"{jars_folder()}/*"]

    def _ready(self) -> bool:
        """True if a Metadata request is answered and the answer names a broker."""
        if self.secured is not None:
            return self._serves_the_administrator(self.secured)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
                body = struct.pack(">hhih5si", 3, 1, 1, 5, b"ready", 0)
                connection.sendall(struct.pack(">i", len(body)) + body)
                head = _exactly(connection, 4)
                answer = _exactly(connection, struct.unpack(">i", head)[0])
                return bool(struct.unpack_from(">i", answer, 4)[0] > 0)
        except (OSError, struct.error):
            return False

    def _serves_the_administrator(self, secured: SecuredBrokers) -> bool:
        """True if the administrator's login is taken and the cluster's description names a broker."""
        quick = {"bootstrap_timeout_ms": 1000, "api_timeout_ms": 5000}
        try:
            with Admin(self.bootstrap, security=secured.security, **quick) as admin:
                return bool(admin.describe_cluster().brokers)
        except (ClientError, ApiError):
            return False

    def _last_words(self) -> str:
        return self.output.read_text(errors="replace")[-4000:] if self.output.exists() else ""


def run_tool(
    name: str, arguments: Sequence[str], *, input_text: str | None = None, timeout: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """Run one of Apache Kafka's command-line tools against whatever its arguments name."""
    return subprocess.run(
        ["java", *QUICK, "-cp", f"{jars_folder()}/*", TOOLS[name], *arguments],
        input=input_text if input_text is not None else "",
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        more = connection.recv(length - len(parts))
        if not more:
            raise OSError("the connection ended")
        parts += more
    return bytes(parts)
