"""The texts that `ottla secure` writes: a broker's options, and a user's for Java's and librdkafka's clients. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ottla.config.broker_checks import STANDARD_AUTHORIZER

SECURE_MARK = "# Written by `ottla secure init`. `ottla start` in this folder takes it."
"""The first line of a server.properties that `ottla start` takes without --config."""
MECHANISM = "SCRAM-SHA-512"
LISTENER = "SASL_SSL"
ADMIN = "admin"
TRUSTSTORE_PASSWORD = "changeit"
"""The password of truststores for Java, which wants one; certificates are no secret."""
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class BrokerPlace(NamedTuple):
    """The hosts and the port of a broker."""

    hosts: tuple[str, ...]
    """The names by which clients reach it, the advertised one first; empty: this machine alone."""
    port: int

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        host = self.hosts[0] if self.hosts else "localhost"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def server_properties(place: BrokerPlace, *, keystore: str, truststore: str, first_users: str) -> str:
    """A broker's options: one listener, which encrypts and asks for a password, for clients and for other brokers."""
    listen = "0.0.0.0" if place.hosts else "127.0.0.1"
    lines = [
        SECURE_MARK,
        "# The private key in ssl.keystore.location is a secret, and so is the folder ca.",
        f"listeners={LISTENER}://{listen}:{place.port}",
    ]
    if place.hosts:
        lines += [
            "# On another machine: its own name, which the certificate must have (ottla secure renew --host NAME).",
            f"advertised.listeners={LISTENER}://{place.address}",
        ]
    lines += [
        f"inter.broker.listener.name={LISTENER}",
        "sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={_escaped(keystore)}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={_escaped(truststore)}",
        f"# {ADMIN} may do everything, others what `ottla acl grant` allows them.",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        f"super.users=User:{ADMIN}",
        "# These users are there at the first start; afterwards `ottla secure user` and `ottla user` change them.",
        f"ottla.first.users={_escaped(first_users)}",
    ]
    return "\n".join(lines) + "\n"


def java_properties(address: str, user: str, password: str, trusted: str) -> str:
    """Options for Java's clients and for ottla's commands (--command-config)."""
    return "".join(
        [
            f"bootstrap.servers={address}\n",
            f"security.protocol={LISTENER}\n",
            f"sasl.mechanism={MECHANISM}\n",
            jaas_line(user, password),
            "ssl.truststore.type=PEM\n",
            trusted_line(trusted),
        ]
    )


def librdkafka_properties(address: str, user: str, password: str, trusted_file: str) -> str:
    """Options for librdkafka's clients (kcat -F)."""
    return (
        f"bootstrap.servers={address}\n"
        f"security.protocol={LISTENER}\n"
        f"sasl.mechanism={MECHANISM}\n"
        f"sasl.username={user}\n" + password_line(password) + f"ssl.ca.location={trusted_file}\n"
    )


def jaas_line(user: str, password: str) -> str:
    return f'sasl.jaas.config={_MODULE} required username="{user}" password="{password}";\n'


def password_line(password: str) -> str:
    return f"sasl.password={password}\n"


def trusted_line(trusted: str) -> str:
    return "ssl.truststore.certificates=" + trusted.replace("\n", "\\n") + "\n"


def with_line(text: str, line: str) -> str:
    """The text with the line of the same option replaced; ValueError if it has none."""
    key = line.partition("=")[0] + "="
    lines = text.splitlines(keepends=True)
    found = [number for number, each in enumerate(lines) if each.startswith(key)]
    if len(found) != 1:
        raise ValueError(f"it has {len(found)} lines {key}..., not one")
    lines[found[0]] = line
    return "".join(lines)


def _escaped(path: str) -> str:
    """A path as Java's properties have it."""
    return path.replace("\\", "\\\\")
