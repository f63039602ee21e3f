"""`ottla registry`: the options of a schema registry. registry/command.py runs it."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.command import BOOTSTRAP, PROFILE, Command, noun
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
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
        )
    )


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
            Option("host", "Listen there; anybody who reaches it may write.", "HOST", default="127.0.0.1"),
            Option("port", "The port of HTTP; 0 takes a free one.", "N", "Integer", default="8081"),
            Option("topic", "The topic that keeps the schemas.", "TOPIC", default="_schemas"),
            Option("replication-factor", "Of a new topic. Default: the cluster's own.", "N", "Integer"),
            Option("accept-damage", "Leave out damaged records of the topic: their schemas are gone."),
            Option("with-parent", "End when standard input does.", hidden=True),
        ],
        has_json=False,
        connects=False,
    ),
}
