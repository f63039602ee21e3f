"""A registry and a worker of Connect that ask their callers for passwords, beside a broker that limits its users."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.access.identity import AUDIENCE, ISSUER
from tests.access.limited import Limited
from tests.access.rights_requests import acl

from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind

CALLERS = ("root", "alice", "bob", "carol")
"""They log in to both by their names as passwords."""
STRING = "org.apache.kafka.connect.storage.StringConverter"
KEPT = ("config", "status", "offset")
_ANY = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def grant_registry(limited: Limited, user: str) -> None:
    """The rights that a registry's own user needs."""
    limited.grant(
        acl(user, Operation.ALL, ResourceKind.TOPIC, "_schemas", prefixed=True),
        acl(user, Operation.DESCRIBE, ResourceKind.CLUSTER, CLUSTER_NAME),
        acl(user, Operation.DESCRIBE_CONFIGS, ResourceKind.CLUSTER, CLUSTER_NAME),
    )


def grant_worker(limited: Limited, user: str) -> None:
    """All rights, for a worker's own user."""
    kinds = (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.TRANSACTIONAL_ID)
    everything = [acl(user, Operation.ALL, kind, "*") for kind in kinds]
    limited.grant(*everything, acl(user, Operation.ALL, ResourceKind.CLUSTER, CLUSTER_NAME))


def registry_process(limited: Limited, folder: Path, user: str, *more: str) -> subprocess.Popen[str]:
    """`ottla registry start`, logged in to the brokers as a user."""
    host, port = limited.address
    client = folder / "client.properties"
    client.write_text("".join(f"{name}={text}\n" for name, text in _login(user).items()))
    command = [sys.executable, "-m", "ottla.cli.main", "registry", "start", "-b", f"{host}:{port}", "--port", "0"]
    command += ["--command-config", str(client), "--users", str(_callers(folder)), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tokens_file(folder: Path, provider_url: str) -> Path:
    """The options by which tokens of an identity provider are taken."""
    file = folder / "tokens.properties"
    rules = f"sasl.oauthbearer.expected.issuer={ISSUER}\nsasl.oauthbearer.expected.audience={AUDIENCE}\n"
    file.write_text(f"sasl.oauthbearer.jwks.endpoint.url={provider_url}/jwks\n{rules}")
    return file


def worker_file(limited: Limited, folder: Path, user: str, kind: str, **more: str) -> str:
    """The file of a worker that logs in to the brokers as a user; `kind`: alone, or of a group.

    `more` options have `_` for a point; empty ones are left out.
    """
    host, port = limited.address
    given = {
        "bootstrap.servers": f"{host}:{port}", "key.converter": STRING, "value.converter": STRING,
        "listeners": "http://127.0.0.1:0", "ottla.rest.users": str(_callers(folder)), "offset.flush.interval.ms": "50",
        **_login(user),
    }  # fmt: skip
    if kind == "alone":
        given["offset.storage.file.filename"] = str(folder / "offsets")
    else:
        given |= {"group.id": "workers", **{f"{each}.storage.topic": f"workers-{each}" for each in KEPT}}
        given |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
    given |= {name.replace("_", "."): value for name, value in more.items()}
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items() if value))
    return str(file)


def worker_process(file: str) -> subprocess.Popen[str]:
    """`ottla connect start` with a worker's file."""
    command = [sys.executable, "-m", "ottla.cli.main", "connect", "start", file]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def url_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """The URL at which a registry or a worker listens, which is stopped at the end."""
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[3]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(90) == 0


def _login(user: str) -> dict[str, str]:
    jaas = f'{_ANY} username="{user}" password="{user}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}


def _callers(folder: Path) -> Path:
    users = folder / "users"
    users.write_text("".join(f"{name}={name}\n" for name in CALLERS))
    return users
