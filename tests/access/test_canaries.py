"""Secrets that stand out, and a search for them in all that a broker leaves behind."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from tests.access.certificates import authority
from tests.ports import free_port
from tests.server.processes import OttlaProcess

from ottla.client import Admin
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError

SECRETS = {
    name: f"canary-{name}-7d1f"
    for name in ("plain", "keystore", "tokens", "scram", "guessed", "altered", "command", "claimed")
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "


class Started(OttlaProcess):
    """`ottla start` with the listeners of its file, as a process with a command line and an environment of its own."""

    def start(self) -> Started:
        words = [sys.executable, "-m", "ottla", "start", "--data", str(self.directory), *self.options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.output = self.process.stdout
        assert " ready: " in self._first_line(), self.log()
        return self


class Watched:
    """A broker whose every secret is one of the canaries, and all that was heard of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.http = free_port(), free_port()
        signer = authority()
        self.trusted = folder / "ca.pem"
        self.trusted.write_text(signer.certificate_pem)
        self.audit = folder / "audit"
        options = {
            "listeners": f"SASL_SSL://127.0.0.1:{self.port}",
            "ssl.keystore.location": signer.sign("broker").store(folder, SECRETS["keystore"]),
            "ssl.keystore.password": SECRETS["keystore"],
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN}user_admin="{SECRETS["plain"]}";',
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config":
                "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "delegation.token.secret.key": SECRETS["tokens"],
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "ottla.audit.log": str(self.audit),
        }  # fmt: skip
        file = folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        words = ("--config", str(file), "--http-port", str(self.http), "--log-level", "debug")
        self.broker = Started(folder / "data", *words)
        self.heard: list[str] = []

    def login(self, user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL", "ssl.ca.location": str(self.trusted), "sasl.mechanism": mechanism,
            "sasl.username": user, "sasl.password": password,
        }  # fmt: skip

    def admin(self, user: str, password: str, mechanism: str = "PLAIN") -> Admin:
        login = self.login(user, password, mechanism)
        return Admin(f"127.0.0.1:{self.port}", security=login, bootstrap_timeout_ms=0)

    @contextlib.contextmanager
    def hearing(self) -> Iterator[None]:
        """Keep what an error says."""
        try:
            yield
        except (ApiError, ClientError, KafkaException) as fault:
            self.heard += [str(fault), repr(fault), repr(fault.__cause__)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    one = Watched(tmp_path_factory.mktemp("watched"))
    with one.broker:
        yield one


def used(watched: Watched) -> None:
    """Log in and fail to, make users and tokens, change options, ask for all that there is."""
    heard, brokers = watched.heard, Resource(ResourceType.BROKER, "1")
    with watched.admin("admin", SECRETS["plain"]) as admin:
        admin.set_password("carol", SECRETS["scram"], "SCRAM-SHA-256")
        heard.append(repr(admin.describe_configs([brokers])))
        option = "listener.name.sasl_ssl.plain.sasl.jaas.config"
        for value in (f'{PLAIN}user_admin="{SECRETS["altered"]}";', f"broken {SECRETS['altered']}"):
            with watched.hearing():
                heard.append(repr(admin.alter_configs({brokers: [(option, ConfigOperation.SET, value)]})))
        heard += [repr(admin.describe_configs([brokers])), repr(admin)]
    for user, password, mechanism in (
        ("admin", SECRETS["guessed"], "PLAIN"),
        ("nobody", SECRETS["guessed"], "SCRAM-SHA-256"),
        ("carol", SECRETS["guessed"], "SCRAM-SHA-256"),
    ):
        with watched.hearing(), watched.admin(user, password, mechanism) as admin:
            admin.cluster.topics()
    with watched.admin("carol", SECRETS["scram"], "SCRAM-SHA-256") as admin, watched.hearing():
        token = admin.create_token()
        heard.append(repr(token))
    for path in ("metrics", "health", "ready"):
        with contextlib.suppress(OSError):
            heard.append(urllib.request.urlopen(f"http://127.0.0.1:{watched.http}/{path}", timeout=60).read().decode())
    settings = watched.login("admin", SECRETS["plain"])
    file = watched.folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    for words in (["config", "get", "broker", "1", "--all"], ["doctor"]):
        command = [sys.executable, "-m", "ottla", *words, "-b", f"127.0.0.1:{watched.port}"]
        ran = subprocess.run([*command, "--command-config", str(file)], capture_output=True, text=True, check=False)
        assert len(ran.stdout) > 100, ran.stderr
        heard += [ran.stdout, ran.stderr]


def left_behind(watched: Watched) -> dict[str, bytes]:
    """All that may be read of the broker by others than its owner: words, and files but for its own properties."""
    found = {f"word {number}": said.encode() for number, said in enumerate(watched.heard)}
    found["log"] = watched.broker.log().encode()
    found["audit log"] = watched.audit.read_bytes()
    found["ps"] = Path(f"/proc/{watched.broker.pid}/cmdline").read_bytes()
    found["environment"] = Path(f"/proc/{watched.broker.pid}/environ").read_bytes()
    found |= {str(path): path.read_bytes() for path in (watched.folder / "data").rglob("*") if path.is_file()}
    return found


def test_no_secret_is_found_in_what_a_broker_leaves_behind(watched: Watched) -> None:
    used(watched)
    found = left_behind(watched)
    assert b"login refused" in found["log"]
    assert b"AlterUserScramCredentials" in found["audit log"]
    assert any(b"sasl.jaas.config" in said for said in found.values())
    told = [
        (where, name)
        for where, said in found.items()
        for name, secret in SECRETS.items()
        for form in (secret.encode(), base64.b64encode(secret.encode()), secret.encode().hex().encode())
        if form in said
    ]
    assert told == []


def test_a_secret_that_is_left_behind_would_be_found(watched: Watched) -> None:
    watched.heard.append(f"the password is {SECRETS['plain']}")
    assert SECRETS["plain"].encode() in b"".join(left_behind(watched).values())
    watched.heard.pop()
