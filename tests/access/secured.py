"""A broker with a listener of each protocol, and requests to it by hand."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.access.certificates import Authority, authority

from ottla.testing import TestBroker

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="secret" user_bob="b";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Secured:
    """A broker with a listener of each protocol."""

    def __init__(self, directory: Path, more: Mapping[str, str] | None = None) -> None:
        self.authority: Authority = authority()
        self.stranger: Authority = authority("strangers")
        self.directory = directory
        self.trusted = directory / "ca.pem"
        self.trusted.write_text(self.authority.certificate_pem)
        self.keystore = Path(self.authority.sign("broker").file(directory))
        options = {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.location": str(self.trusted),
            "listener.name.ssl.ssl.client.auth": "required",
            "connection.failed.authentication.delay.ms": "1",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            options[f"listener.name.{listener}.plain.sasl.jaas.config"] = PLAIN
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                options[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = SCRAM
        options["listener.name.sasl_plaintext.plain.connections.max.reauth.ms"] = "60000"
        self.broker = TestBroker({**options, **(more or {})})

    def address(self, listener: str) -> tuple[str, int]:
        return self.broker._running().addresses[listener]

    def client(self, listener: str, **settings: str) -> dict[str, str]:
        host, port = self.address(listener)
        said = {"bootstrap.servers": f"{host}:{port}", "security.protocol": listener, "log_level": "0"}
        if listener.endswith("SSL"):
            said["ssl.ca.location"] = str(self.trusted)
        return said | {name.replace("_", "."): value for name, value in settings.items()}

    def login(self, listener: str, mechanism: str, user: str, password: str) -> dict[str, str]:
        return self.client(listener, sasl_mechanism=mechanism, sasl_username=user, sasl_password=password)

    @contextlib.contextmanager
    def connected(self, listener: str = "SASL_PLAINTEXT") -> Iterator[Raw]:
        with socket.create_connection(self.address(listener), timeout=20) as sock:
            yield Raw(sock)


class Raw:
    """Requests by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def send(self, data: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def ask(self, key: int, version: int, body: bytes) -> bytes | None:
        """The answer behind its correlation id; None if the connection is closed without one."""
        self.send(struct.pack(">hhih", key, version, 7, -1) + body)
        answer = self.receive()
        return None if answer is None else answer[4:]

    def receive(self) -> bytes | None:
        size = self._exactly(4)
        return None if size is None else self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not more:
                return None
            data += more
        return data

    def handshake(self, mechanism: str, version: int = 1) -> tuple[int, bytes] | None:
        answer = self.ask(17, version, struct.pack(">h", len(mechanism)) + mechanism.encode())
        return None if answer is None else (struct.unpack(">h", answer[:2])[0], answer[2:])

    def token(self, data: bytes) -> int | None:
        answer = self.ask(36, 0, struct.pack(">i", len(data)) + data)
        return None if answer is None else struct.unpack(">h", answer[:2])[0]

    def is_closed(self) -> bool:
        return self.receive() is None
