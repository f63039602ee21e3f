"""The brokers of the race with a listener for TLS beside the plain one: the same key, the same certificate."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

from tests.ports import free_port

from bench.brokers import KAFKA_PROPERTIES, Broker, KafkaBroker, OttlaBroker
from ottla.tls.authority import issue, new_authority


def make_keys(folder: Path) -> None:
    """Write a P-256 key with its certificate, broker.pem, and the certificate to trust, ca.pem."""
    now = datetime.datetime.now(datetime.UTC)
    authority = new_authority("bench", now=now)
    issued = issue(authority, "broker", ["localhost", "127.0.0.1"], now=now)
    (folder / "broker.pem").write_text(issued.key + issued.certificate)
    (folder / "ca.pem").write_text(authority.certificate)


class _WithTls(Broker):
    """A broker whose clients in the race come over TLS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tls_port = free_port()

    @property
    def client(self) -> dict[str, str]:
        address = f"127.0.0.1:{self.tls_port}"
        return {"brokers": address, "security.protocol": "SSL", "ssl.ca.location": str(self.folder / "ca.pem")}

    @property
    def listeners(self) -> str:
        return f"PLAINTEXT://127.0.0.1:{self.port},SSL://127.0.0.1:{self.tls_port}"


class OttlaTlsBroker(_WithTls, OttlaBroker):
    """`ottla start` with both listeners."""

    def prepare(self) -> None:
        make_keys(self.folder)

    def command(self) -> list[str]:
        start = [str(Path(sys.executable).with_name("ottla")), "start", "--data", str(self.folder / "data")]
        keys = f"ssl.keystore.location={self.folder / 'broker.pem'}"
        return [*start, "--http-port", "0", "--set", f"listeners={self.listeners}", "--set", keys]

    def configuration(self) -> dict[str, str]:
        return {"command": "ottla start --data DIR --http-port 0 --set listeners=... --set ssl.keystore.location=FILE"}


class KafkaTlsBroker(_WithTls, KafkaBroker):
    """Apache Kafka with both listeners."""

    @property
    def properties(self) -> str:
        lines = []
        for line in KAFKA_PROPERTIES.splitlines():
            name, _, value = line.partition("=")
            if name == "listeners":
                value = self.listeners + ",CONTROLLER://127.0.0.1:{controller_port}"
            lines += [f"{name}={value}"] if name != "advertised.listeners" else []
        keys = {
            "advertised.listeners": self.listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "broker.pem"),
        }
        return "\n".join([*lines, *(f"{name}={value}" for name, value in keys.items())]) + "\n"

    def prepare(self) -> None:
        make_keys(self.folder)
        super().prepare()

    def configuration(self) -> dict[str, str]:
        return super().configuration() | {"server.properties": self.properties}
