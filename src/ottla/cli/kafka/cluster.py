"""`kafka-cluster`: the cluster's id, its brokers, and forgetting a broker that does not come back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse
from ottla.cli.kafka.java_errors import java
from ottla.cli.kafka.subcommands import listed
from ottla.cli.options import Given, Option, Parser
from ottla.client.errors import UnsupportedVersion
from ottla.kernel.errors import ApiError

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_CONNECTION = [
    Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "BOOTSTRAP_SERVER", short="b"),
    Option("bootstrap-controller", "Not for this cluster: brokers are their own controllers.", "HOST", short="C"),
    Option("command-config", "Property file with client options.", "COMMAND_CONFIG", short="c"),
    Option("config", "Deprecated: --command-config.", "CONFIG"),
]
_USAGE = "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...\n"


def _parser(about: str, *options: Option) -> Parser:
    return Parser(about, [*_CONNECTION, *options])


_ID = Option("id", "REQUIRED: the broker to unregister.", "ID", "Integer", short="i")
_FENCED = Option("include-fenced-brokers", "List brokers that are fenced, too.")


def command(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments else ""
    if name not in _COMMANDS:
        wanted = "{" + ",".join(_COMMANDS) + "}"
        out = sys.stdout if name in ("-h", "--help") else sys.stderr
        problem = f"invalid choice: '{name}' (choose from {wanted})" if name else "too few arguments"
        out.write(_help() if out is sys.stdout else f"{_USAGE}kafka-cluster: error: {problem}\n")
        return 0 if out is sys.stdout else 1
    parser, run = _COMMANDS[name]
    try:
        given = parser.parse(arguments[1:])
        if "help" in given:
            sys.stdout.write(f"{_USAGE}\n{parser.about}\n{parser.table()}")
            return 0
        if "version" in given:
            sys.stdout.write("4.3.1\n")
            return 0
        server, config = _where(given)
        with admin_from(server, config) as admin:
            run(admin, given)
    except Misuse as fault:
        sys.stderr.write(f"{_USAGE}kafka-cluster: error: {fault}\n")
        return 1
    except ApiError as fault:
        sys.stderr.write(f"{java(fault)}\n")
        return 1
    return 0


def _help() -> str:
    subcommands = listed({name: parser.about for name, (parser, _) in _COMMANDS.items()})
    options = f"optional arguments:\n{'  -h, --help':<25}show this help message and exit\n"
    return f"{_USAGE}\nThe Kafka cluster tool.\n\n{subcommands}\n{options}"


def _where(given: Given) -> tuple[str, str | None]:
    if "bootstrap-controller" in given:
        raise Misuse("--bootstrap-controller is not supported: ask a broker by --bootstrap-server")
    server, config = given.text("bootstrap-server"), given.text("command-config")
    if server is None:
        raise Misuse("one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required")
    if "config" in given:
        if config is not None:
            raise Misuse("--config and --command-config cannot be specified together.")
        sys.stdout.write(
            "Option --config has been deprecated and will be removed in a future version. "
            "Use --command-config instead.\n"
        )
        config = given.text("config")
    return server, config


def _cluster_id(admin: Admin, given: Given) -> None:
    sys.stdout.write(f"Cluster ID: {admin.describe_cluster().cluster_id}\n")


def _unregister(admin: Admin, given: Given) -> None:
    broker = given.number("id")
    if broker is None:
        raise Misuse("argument --id/-i is required")
    try:
        admin.unregister_broker(broker)
    except UnsupportedVersion:
        sys.stdout.write("The target cluster does not support the broker unregistration API.\n")
    else:
        sys.stdout.write(f"Broker {broker} is no longer registered.\n")


def _list_endpoints(admin: Admin, given: Given) -> None:
    try:
        brokers = admin.describe_brokers(fenced="include-fenced-brokers" in given).brokers
    except UnsupportedVersion as fault:
        sys.stdout.write(f"{fault}\n")
        return
    host = max((len(broker.host) for broker in brokers), default=100)
    rack = max((len(broker.rack) for broker in brokers if broker.rack is not None), default=10)
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for broker in brokers:
        state = "fenced" if broker.is_fenced else "unfenced"
        rack_name = "null" if broker.rack is None else broker.rack
        rows.append((str(broker.broker_id), broker.host, str(broker.port), rack_name, state, "broker"))
    for row in rows:
        sys.stdout.write(f"{row[0]:<10} {row[1]:<{host}} {row[2]:<10} {row[3]:<{rack}} {row[4]:<10} {row[5]:<15}\n")


_COMMANDS: dict[str, tuple[Parser, Callable[[Admin, Given], None]]] = {
    "cluster-id": (_parser("Get information about the ID of a cluster."), _cluster_id),
    "unregister": (_parser("Unregister a broker.", _ID), _unregister),
    "list-endpoints": (_parser("List endpoints", _FENCED), _list_endpoints),
}
