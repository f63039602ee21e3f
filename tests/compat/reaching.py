"""Options by which each kind of client reaches the brokers under test: their address, and the login that they ask for.

OTTLA_COMPAT_LOGIN holds the login as JSON, for the programs of the folders `node` and `go` too. Without it the brokers
ask nobody who they are.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ottla.config.properties import parse_properties

GIVEN = "OTTLA_COMPAT_LOGIN"


@dataclass(frozen=True, slots=True)
class Login:
    """A user of brokers that listen with SASL_SSL."""

    mechanism: str
    user: str
    password: str
    trusted: str
    """The file with the certificate of the brokers' authority, as PEM."""
    java: str
    """The file with the options of Java's clients, without the brokers' address."""

    def text(self) -> str:
        """The value of OTTLA_COMPAT_LOGIN."""
        return json.dumps(asdict(self))


def login() -> Login | None:
    """The login that the environment gives, if any."""
    given = os.environ.get(GIVEN)
    return Login(**json.loads(given)) if given else None


def librdkafka(bootstrap: str) -> dict[str, Any]:
    """Options of librdkafka's clients."""
    options = {"bootstrap.servers": bootstrap}
    if (one := login()) is not None:
        options |= {"security.protocol": "SASL_SSL", "ssl.ca.location": one.trusted, "sasl.mechanism": one.mechanism}
        options |= {"sasl.username": one.user, "sasl.password": one.password}
    return options


def kafka_python(bootstrap: str) -> dict[str, Any]:
    """Arguments of kafka-python's clients."""
    one = login()
    return {"bootstrap_servers": bootstrap, **({} if one is None else {**_named(one), "ssl_cafile": one.trusted})}


def aiokafka(bootstrap: str) -> dict[str, Any]:
    """Arguments of aiokafka's clients."""
    one = login()
    context = {} if one is None else {**_named(one), "ssl_context": ssl.create_default_context(cafile=one.trusted)}
    return {"bootstrap_servers": bootstrap, **context}


def _named(one: Login) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": one.mechanism,
        "sasl_plain_username": one.user,
        "sasl_plain_password": one.password,
    }


def kcat(bootstrap: str) -> list[str]:
    """Arguments of kcat."""
    options = librdkafka(bootstrap)
    return [
        "-b",
        options.pop("bootstrap.servers"),
        *(word for each in options.items() for word in ("-X", "=".join(each))),
    ]


def java_tool(arguments: Sequence[str]) -> list[str]:
    """The arguments of one of Kafka's tools; the file of the login stands behind the brokers' address."""
    one = login()
    if one is None:
        return list(arguments)
    behind = list(arguments).index("--bootstrap-server") + 2
    return [*arguments[:behind], "--command-config", one.java, *arguments[behind:]]


def java() -> dict[str, str]:
    """Options of Java's clients and of ours beside the address."""
    one = login()
    return {} if one is None else options_in(Path(one.java))


def options_in(file: Path) -> dict[str, str]:
    """The options in a file of a user, without the address."""
    return {name: value for name, value in parse_properties(file.read_text()).items() if name != "bootstrap.servers"}
