"""NATS JetStream, RabbitMQ and ActiveMQ as child processes in folders of their own, where they are at hand.

`tools/setup.sh queues-if-possible` brings them. Packages of the system are unpacked and not installed, which would
start them at every boot.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.ports import free_port

from bench.brokers import READY_WITHIN_S, ROOT, Broker, process_cpu_seconds, resident_mb

PROGRAMS = Path(os.environ.get("OTTLA_QUEUES") or ROOT / ".cache" / "queues")
NATS = PROGRAMS / "usr" / "sbin" / "nats-server"
RABBIT = PROGRAMS / "usr" / "lib" / "rabbitmq" / "lib"
ERLANG = PROGRAMS / "usr" / "lib" / "erlang"
ACTIVEMQ = Path(os.environ.get("OTTLA_ACTIVEMQ_JARS") or ROOT / ".cache" / "activemq" / "libs")


class QueueBroker(Broker):
    """A server that does not speak the Kafka protocol: it is ready when its port answers."""

    def start(self) -> float:
        """Start in an empty folder; return the seconds until a client can connect."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.prepare()
        begin = time.monotonic()
        with (self.folder / "out.log").open("wb") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=os.environ | self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > begin + READY_WITHIN_S:
                self.stop()
                raise RuntimeError(f"{self.name} did not start; see {self.folder / 'out.log'}")
            time.sleep(0.02)
        return time.monotonic() - begin

    def answers(self) -> bool:
        """True once a client can connect and is greeted."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(self.greeting)
                return bool(connection.recv(1))
        except OSError:
            return False

    greeting = b""
    """The bytes after which the server answers a client; empty if it speaks first."""

    def environment(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        """Do nothing: the folder is enough."""

    def session(self) -> list[int]:
        """The processes of this server: RabbitMQ's helpers leave the family, and not the session."""
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.getsid(int(name)) == self.pid:
                    found.append(int(name))
            except ProcessLookupError:
                continue
        return found

    def stop(self) -> None:
        super().stop()
        if self.process is not None:
            for pid in self.session():
                os.kill(pid, signal.SIGKILL)

    def cpu_seconds(self) -> float:
        return sum(process_cpu_seconds(pid) for pid in self.session())

    def resident_mb(self, field: str = "VmRSS") -> float:
        return sum(resident_mb(pid, field) for pid in self.session())


class NatsBroker(QueueBroker):
    """NATS JetStream with files: an acknowledged message is in the page cache."""

    name = "nats"

    def command(self) -> list[str]:
        return [str(NATS), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "data")]

    def configuration(self) -> dict[str, str]:
        return {"command": "nats-server -js -sd DIR, a stream in files"}


class RabbitBroker(QueueBroker):
    """RabbitMQ with its defaults: durable queues, persistent messages, confirms."""

    name = "rabbitmq"
    greeting = b"AMQP\x00\x00\x09\x01"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.names_port = free_port()  # of Erlang's daemon of names, which leaves the session

    def stop(self) -> None:
        super().stop()
        if self.process is not None:
            command = [str(ERLANG / "bin" / "epmd"), "-port", str(self.names_port), "-kill"]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def command(self) -> list[str]:
        (release,) = RABBIT.glob("rabbitmq_server-*")
        return [str(release / "sbin" / "rabbitmq-server")]

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{ERLANG / 'bin'}:{os.environ['PATH']}",
            "ERL_ROOTDIR": str(ERLANG),
            "ERL_EPMD_PORT": str(self.names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": f"race{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
        }

    def configuration(self) -> dict[str, str]:
        return {"command": "rabbitmq-server"}


class ActiveMqBroker(QueueBroker):
    """ActiveMQ Classic with KahaDB, which syncs persistent messages to the disk, over STOMP."""

    name = "activemq"
    greeting = b"CONNECT\naccept-version:1.2\nhost:race\n\n\x00"

    def command(self) -> list[str]:
        options = f"persistent=true&useJmx=false&dataDirectory={self.folder / 'data'}"
        address = f"broker:(stomp://127.0.0.1:{self.port})/race?{options}"
        return ["java", "-Xmx1G", "-cp", f"{ACTIVEMQ}/*", str(ROOT / "bench" / "ActiveMq.java"), address]

    def configuration(self) -> dict[str, str]:
        return {"command": "an embedded broker with persistent=true, 1 GiB of heap"}


def at_hand(programs: Path = PROGRAMS, jars: Path = ACTIVEMQ) -> list[str]:
    """The names of the servers that are there."""
    places = {
        "nats": (programs, "usr/sbin/nats-server"),
        "rabbitmq": (programs, "usr/lib/rabbitmq/lib/rabbitmq_server-*"),
        "activemq": (jars, "activemq-broker-*.jar"),
    }
    return [name for name, (folder, pattern) in places.items() if any(folder.glob(pattern))]
