"""`kafka-client-metrics`: subscriptions to the metrics that clients push (KIP-714)."""

from __future__ import annotations

import sys
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse
from ottla.cli.kafka.configs import known_resources, read_configs
from ottla.cli.kafka.java_errors import java
from ottla.cli.options import Given, Option, Parser
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_KIND = "client-metrics"
_OPTIONS = {"interval": "interval.ms", "match": "match", "metrics": "metrics"}
_ACTIONS = ("alter", "delete", "describe", "list")

PARSER = Parser(
    "This tool helps to manipulate and describe client metrics configurations.",
    [
        Option("bootstrap-server", "The brokers to connect to.", "server to connect to"),
        Option("command-config", "Property file with client options.", "command config property file"),
        Option("alter", "Change a subscription, or make one."),
        Option("delete", "Delete a subscription."),
        Option("describe", "Show one subscription, or all."),
        Option("list", "Print the names of subscriptions."),
        Option("name", "The name of the subscription.", "name"),
        Option("generate-name", "Give a new subscription a random name."),
        Option("interval", "How often clients push, in ms; empty takes it back.", "push interval"),
        Option("match", "NAME=REGEX with commas: the clients; empty takes it back.", "k1=v1,k2=v2"),
        Option("metrics", "Prefixes of metrics with commas, or * for all; empty takes them back.", "m1,m2"),
    ],
)


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    try:
        action = _action(given)
        with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
            {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}[action](admin, given)
    except Misuse as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    except (ClientError, ApiError) as fault:
        sys.stdout.flush()
        sys.stderr.write(f"Error while executing client metrics command: {java(fault)}\n")
        return 1
    return 0


def _action(given: Given) -> str:
    """The one action; Misuse where its options do not go together."""
    actions = [action for action in _ACTIONS if action in given]
    if len(actions) != 1:
        PARSER.usage("Command must include exactly one action: --alter, --delete, --describe or --list.")
    if "bootstrap-server" not in given:
        raise Misuse("--bootstrap-server must be specified")
    (action,) = actions
    if "generate-name" in given and (action != "alter" or "name" in given):
        raise Misuse("--generate-name goes with --alter alone, in place of --name")
    if action in ("alter", "delete") and "name" not in given and "generate-name" not in given:
        raise Misuse(f"--{action} needs the --name of a subscription")
    if action == "list" and "name" in given:
        raise Misuse("--list takes no --name; --describe shows one subscription")
    edits = [name for name in _OPTIONS if name in given]
    if edits and action != "alter":
        raise Misuse(f"--{edits[0]} goes with --alter alone")
    if action == "alter" and not edits:
        raise Misuse("--alter needs at least one of --interval, --match and --metrics")
    return action


def _alter(admin: Admin, given: Given) -> None:
    name = given.text("name") or urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
    _edit(admin, name, {key: given.need(option) or None for option, key in _OPTIONS.items() if option in given})
    sys.stdout.write(f"Altered client metrics config for {name}.\n")


def _delete(admin: Admin, given: Given) -> None:
    name = given.need("name")
    own = [] if name not in known_resources(admin, _KIND) else _own(admin, name)
    if not own:
        raise Misuse(f"The client metric resource '{name}' doesn't exist: --list prints those that do.")
    _edit(admin, name, dict.fromkeys(key for key, _ in own))
    sys.stdout.write(f"Deleted client metrics config for {name}.\n")


def _describe(admin: Admin, given: Given) -> None:
    known, name = known_resources(admin, _KIND), given.text("name")
    if name is not None and name not in known:
        sys.stdout.write(f"The client metric resource '{name}' doesn't exist and doesn't have dynamic config.\n")
        return
    for each in known if name is None else [name]:
        sys.stdout.write(f"Client metrics configs for {each} are:\n")
        for key, value in _own(admin, each):
            sys.stdout.write(f"  {key}={value}\n")


def _list(admin: Admin, _given: Given) -> None:
    for name in known_resources(admin, _KIND):
        sys.stdout.write(f"{name}\n")


def _own(admin: Admin, name: str) -> list[tuple[str, str]]:
    """The options that a subscription sets itself."""
    from ottla.client.admin.admin import ConfigSource

    own = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
    found = read_configs(admin, _KIND, name)
    return [(each.name, each.value or "") for each in found if each.config_source == own]


def _edit(admin: Admin, name: str, edits: dict[str, str | None]) -> None:
    """Set options; None takes one back."""
    from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType

    changes = [
        (key, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value) for key, value in edits.items()
    ]
    resource = Resource(ResourceType.CLIENT_METRICS, name)
    fault = admin.alter_configs({resource: changes})[resource]
    if fault is not None:
        raise fault
