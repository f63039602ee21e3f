"""`kafka-groups`: list groups of all kinds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.connect import admin_from
from ottla.cli.javamap import hash_order, string_hash
from ottla.cli.kafka.consumer_groups import print_error
from ottla.cli.kafka.java_errors import java
from ottla.cli.options import Given, Option, Parser
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError

if TYPE_CHECKING:
    from ottla.messages.list_groups import ListedGroup

_TYPES = ("classic", "consumer", "share", "streams")
_NARROWEST = 20

PARSER = Parser(
    "This tool helps to list groups of all types.",
    [
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "server to connect to"),
        Option("command-config", "Property file with client options.", "command config property file"),
        Option("list", "List the groups."),
        Option("group-type", "Only groups of this type: classic, consumer, share or streams.", "type"),
        Option("protocol", "Only groups of this protocol type.", "protocol"),
        Option("consumer", "Only groups of consumers: of type consumer, classic, and those of offsets alone."),
        Option("share", "Only share groups."),
        Option("streams", "Only streams groups."),
    ],
)


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "bootstrap-server")
    if "list" not in given:
        PARSER.usage("Command must include exactly one action: --list.")
    kind = given.text("group-type")
    if kind is not None and kind.lower() not in _TYPES:
        PARSER.usage("--group-type must be a valid group type.")
    for name in ("consumer", "share", "streams"):
        PARSER.exclusive(given, name, *(other for other in ("consumer", "share", "streams") if other != name))
        if name in given:
            PARSER.exclusive(given, name, "group-type", "protocol")
    try:
        with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
            found = {group.group_id: group for group in admin.list_groups() if _is_wanted(group, given)}
    except (ClientError, ApiError) as fault:
        print_error(java(fault))
        return 1
    _print([found[group] for group in hash_order(found, string_hash)])
    return 0


def _is_wanted(group: ListedGroup, given: Given) -> bool:
    kind = _kind(group)
    if "consumer" in given:
        return kind == "consumer" or (kind == "classic" and group.protocol_type in ("", "consumer"))
    if "share" in given or "streams" in given:
        return kind == ("share" if "share" in given else "streams")
    wanted = given.text("group-type")
    if wanted is not None and kind != wanted.lower():
        return False
    protocol = given.text("protocol")
    return protocol is None or group.protocol_type == protocol


def _kind(group: ListedGroup) -> str:
    """The protocol of a group; brokers that do not tell the type have classic groups only."""
    return group.group_type.lower() or "classic"


def _print(groups: Sequence[ListedGroup]) -> None:
    rows = [["GROUP", "TYPE", "PROTOCOL"]]
    rows += [[group.group_id, _kind(group).capitalize(), group.protocol_type] for group in groups]
    width = max([_NARROWEST, *(len(group.group_id) for group in groups)])
    for row in rows:
        sys.stdout.write(" ".join(f"{cell:<{width}}" for cell in row) + "\n")
