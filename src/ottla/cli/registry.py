"""`ottla registry`: the options of a schema registry. registry/command.py runs it."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.command import BOOTSTRAP, COMMAND_CONFIG, PROFILE, Command, noun
from ottla.cli.connect import client_settings, read_properties
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option
from ottla.client.model import ClientSettings
from ottla.registry.command import RegistryOptions, start

_HIGHEST_PORT = 65535


def command(arguments: Sequence[str]) -> int:
    return noun("registry", VERBS, arguments)


def _start(given: Given) -> int:
    port, replicas = given.count("port"), given.number("replication-factor")
    if not 0 <= port <= _HIGHEST_PORT:
        raise Misuse(f"--port {port} is not a port: ports are 0 to {_HIGHEST_PORT}")
    if replicas is not None and replicas < 1:
        raise Misuse(f"--replication-factor {replicas}: at least 1 is possible")
    return start(
        RegistryOptions(
            bootstrap_servers=given.need("bootstrap-server"),
            host=given.need("host"),
            port=port,
            topic=given.need("topic"),
            replication_factor=-1 if replicas is None else replicas,
            accept_damage="accept-damage" in given,
            with_parent="with-parent" in given,
            settings=_client(given),
            tls=_tls(given),
            users=given.text("users"),
            tokens=given.text("tokens"),
        )
    )


def _client(given: Given) -> ClientSettings | None:
    """The security of the client of Kafka; the rest is the registry's own."""
    path = given.text("command-config")
    return None if path is None else ClientSettings(security=client_settings(read_properties(path)).security)


def _tls(given: Given) -> dict[str, str] | None:
    """The ssl.* options of a file: that of a broker or a worker will do."""
    path = given.text("ssl-config")
    if path is None:
        return None
    found = {name: text for name, text in read_properties(path).items() if name.startswith("ssl.")}
    if not found:
        raise BadInput(f"{path} has no option ssl.*: HTTPS needs ssl.keystore.location at the least")
    return found


VERBS = {
    "start": Command(
        "ottla registry start [-b HOST:PORT] [--port N]",
        "Serve a schema registry over HTTP.\n\n"
        "Schemas are kept in a compacted topic, so any number of instances may run beside each other, and each may be "
        "ended at any time.",
        _start,
        [
            BOOTSTRAP,
            PROFILE,
            COMMAND_CONFIG,
            Option("host", "Listen there.", "HOST", default="127.0.0.1"),
            Option("port", "The port of HTTP; 0 takes a free one.", "N", "Integer", default="8081"),
            Option("ssl-config", "Serve HTTPS by the ssl.* options in this file, a server.properties too.", "FILE"),
            Option(
                "users",
                "Ask for a password: a file of lines NAME=PASSWORD. Each user may do what the cluster's ACLs allow "
                "User:NAME. Without it anybody may write.",
                "FILE",
            ),
            Option(
                "tokens",
                "Take tokens of an identity provider, by the sasl.oauthbearer.* options in this file, a "
                "server.properties too. The owner of one is User:NAME.",
                "FILE",
            ),
            Option("topic", "The topic that keeps the schemas.", "TOPIC", default="_schemas"),
            Option("replication-factor", "Of a new topic. Default: the cluster's own.", "N", "Integer"),
            Option("accept-damage", "Leave out damaged records of the topic: their schemas are gone."),
            Option("with-parent", "End when standard input does.", hidden=True),
        ],
        has_json=False,
        connects=False,
    ),
}
