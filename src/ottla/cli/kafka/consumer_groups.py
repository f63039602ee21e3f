"""`kafka-consumer-groups`: list, describe, delete consumer groups, reset and delete their offsets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse
from ottla.cli.javamap import hash_order, string_hash
from ottla.cli.kafka.java_errors import java, told
from ottla.cli.options import Given, Option, Parser
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.patterns import BadPattern, compile_pattern

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_TYPES = ("Classic", "Consumer")

PARSER = Parser(
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets.",
    [
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "server to connect to"),
        Option("command-config", "Property file with client options.", "command config property file"),
        Option("group", "The group.", "consumer group"),
        Option("all-groups", "Every group."),
        Option("topic", "The topic, or topic:partition,partition.", "topic"),
        Option("all-topics", "Every topic that the group has offsets for."),
        Option("list", "List all groups."),
        Option("describe", "Describe groups: where they are, and how far behind."),
        Option("delete", "Delete groups without members."),
        Option("delete-offsets", "Delete what a group committed for topics."),
        Option("reset-offsets", "Set what a group committed; --execute does it, --dry-run shows it."),
        Option("validate-regex", "Check a regular expression for KIP-848 subscriptions.", "regex"),
        Option("dry-run", "Only show the new offsets."),
        Option("execute", "Carry the reset out."),
        Option("export", "Print the new offsets as CSV."),
        Option("to-offset", "Reset to this offset.", "offset", "Long"),
        Option("shift-by", "Reset by so many records, forward or (-) back.", "number-of-offsets", "Long"),
        Option("to-datetime", "Reset to a time: YYYY-MM-DDTHH:mm:SS.sss.", "datetime"),
        Option("by-duration", "Reset to so long ago: PnDTnHnMnS.", "duration"),
        Option("to-earliest", "Reset to the first offset."),
        Option("to-latest", "Reset to the end."),
        Option("to-current", "Reset to what is committed now."),
        Option("from-file", "Reset to the offsets of a CSV file.", "path to CSV file"),
        Option("members", "Describe members."),
        Option("offsets", "Describe offsets (the default)."),
        Option("state", "Describe the state; with --list, show it or choose by it.", "", optional=True),
        Option("type", "With --list: show the type or choose by it.", "", optional=True),
        Option("verbose", "Tell more."),
        Option("timeout", "Time for the group to settle, in milliseconds.", "timeout (ms)", "Long", default="30000"),
    ],
)


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "bootstrap-server")
    chosen = [action for action in _ACTIONS if action in given]
    if len(chosen) != 1:
        PARSER.usage(f"Command must include exactly one action: {', '.join(f'--{action}' for action in _ACTIONS)}")
    _check(given, chosen[0])
    try:
        with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
            _actions()[chosen[0]](admin, given)
    except Misuse as fault:
        PARSER.usage(str(fault))
    except NoSuchTopic as fault:
        print_error(f"Executing consumer group command failed due to {told(fault)}")
    except (ClientError, ApiError) as fault:
        print_error(f"Executing consumer group command failed due to {java(fault)}")
    return 0


class NoSuchTopic(ApiError):
    """A topic on the command line that does not exist."""


def _actions() -> dict[str, Callable[[Admin, Given], None]]:
    from ottla.cli.kafka import groups_describe, groups_reset

    return {
        "list": _list,
        "describe": groups_describe.describe,
        "delete": _delete,
        "reset-offsets": groups_reset.reset,
        "delete-offsets": _delete_offsets,
        "validate-regex": _validate_regex,
    }


def _check(given: Given, action: str) -> None:
    """Refuse options that do not go together."""
    everyone = ("group", "all-groups")
    if action in ("describe", "delete", "reset-offsets") and not any(name in given for name in everyone):
        PARSER.usage(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action == "describe" and sum(name in given for name in ("members", "offsets", "state")) > 1:
        PARSER.usage("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if action == "describe" and given.text("state"):
        PARSER.usage("Option [describe] does not take a value for [state]")
    if action == "delete" and "topic" in given:
        PARSER.usage("The consumer does not support topic-specific offset deletion from a consumer group.")
    if action == "delete-offsets" and ("group" not in given or "topic" not in given):
        PARSER.usage("Option [delete-offsets] takes the following options: [group], [topic]")
    if action == "reset-offsets":
        PARSER.exclusive(given, "dry-run", "execute")
        if "dry-run" not in given and "execute" not in given:
            sys.stderr.write(
                "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command "
                "will require either --dry-run or --execute to be specified. You should add the --dry-run option "
                "explicitly if you are scripting this command and want to keep the current default behavior without "
                "prompting.\n"
            )
        if "to-offset" not in given and not any(name in given for name in SCENARIOS):
            PARSER.usage(
                "Option [reset-offsets] takes exactly one of these options: "
                + ", ".join(f"[{name}]" for name in sorted(SCENARIOS))
            )
        for name in SCENARIOS:
            PARSER.exclusive(given, name, *(other for other in SCENARIOS if other != name))


def print_error(message: str) -> None:
    """Print an error as Kafka's tool does: on standard output, after an empty line."""
    sys.stdout.write(f"\nError: {message}\n")


def chosen_groups(admin: Admin, given: Given) -> list[str]:
    """The groups named, or all consumer groups."""
    if "all-groups" in given:
        return [group.group_id for group in _consumer_groups(admin)]
    return list(dict.fromkeys(given.all("group")))


def _consumer_groups(admin: Admin, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[_Listed]:
    found = {
        each.group_id: _Listed(each.group_id, each.group_state, each.group_type)
        for each in admin.list_groups(states=states, types=types)
        if _is_consumer(each.protocol_type)
    }
    return [found[group] for group in hash_order(found, string_hash)]


def _is_consumer(protocol_type: str) -> bool:
    return protocol_type in ("", "consumer")


class _Listed:
    def __init__(self, group_id: str, state: str, kind: str) -> None:
        self.group_id = group_id
        self.state = state
        self.kind = kind.capitalize() if kind else "Classic"


def _list(admin: Admin, given: Given) -> None:
    states = _valid(given.text("state"), _STATES, "state")
    types = _valid(given.text("type"), _TYPES, "types")
    groups = _consumer_groups(admin, states=states, types=types)
    columns: list[tuple[str, Callable[[_Listed], str]]] = []
    if "type" in given:
        columns.append(("TYPE", lambda group: group.kind))
    if "state" in given:
        columns.append(("STATE", lambda group: group.state))
    if not columns:
        sys.stdout.write("".join(f"{group.group_id}\n" for group in groups))
        return
    width = max([15, *(len(group.group_id) for group in groups)]) + 10
    rows = [["GROUP", *(title for title, _ in columns)]]
    rows += [[group.group_id, *(tell(group) for _, tell in columns)] for group in groups]
    for row in rows:
        sys.stdout.write(f"{row[0]:<{width}} " + " ".join(f"{cell:<20}" for cell in row[1:]) + "\n")


def _valid(text: str | None, allowed: Sequence[str], what: str) -> list[str]:
    """A list of states or types in any case, as Kafka writes them."""
    if not text:
        return []
    known = {each.lower(): each for each in allowed}
    words = [word.strip().lower() for word in text.split(",")]
    if any(word not in known for word in words):
        raise Misuse(f"Invalid {what} list '{text}'. Valid {what}s are: {', '.join(allowed)}")
    return [known[word] for word in words]


def _delete(admin: Admin, given: Given) -> None:
    groups = chosen_groups(admin, given)
    outcome = admin.delete_groups(groups)
    failed = {group: fault for group, fault in outcome.items() if fault is not None}
    deleted = [f"'{group}'" for group, fault in outcome.items() if fault is None]
    if not failed:
        sys.stdout.write(f"Deletion of requested consumer groups ({', '.join(deleted)}) was successful.\n")
        return
    print_error("Deletion of some consumer groups failed:")
    for group, fault in failed.items():
        sys.stdout.write(f"* Group '{group}' could not be deleted due to: {java(fault)}\n")
    if deleted:
        sys.stdout.write(f"\nThese consumer groups were deleted successfully: {', '.join(deleted)}\n")


def parse_topics(admin: Admin, given: Given) -> tuple[list[TopicPartition], list[str]]:
    """`--topic T` and `--topic T:0,1` as partitions that exist, and topics that do not."""
    topics = admin.list_topics()
    partitions: list[TopicPartition] = []
    missing: list[str] = []
    for text in given.all("topic"):
        name, colon, numbers = text.partition(":")
        if colon:
            try:
                partitions += [TopicPartition(name, int(number)) for number in numbers.split(",")]
            except ValueError:
                raise Misuse(f"Invalid topic arg '{text}', expected topic name and partitions") from None
        elif name in topics:
            partitions += [TopicPartition(name, index) for index in sorted(topics[name].partitions)]
        else:
            missing.append(name)
    return partitions, missing


def _delete_offsets(admin: Admin, given: Given) -> None:
    group = given.need("group")
    partitions, missing = parse_topics(admin, given)
    outcome: dict[TopicPartition, ApiError | None] = {}
    try:
        outcome = admin.delete_offsets(group, partitions) if partitions else {}
    except ApiError as fault:
        outcome = dict.fromkeys(partitions, fault)
        known = fault.code in _GROUP_FAULTS
        print_error(told(fault) if known else f"Encounter some unknown error: {told(fault)}")
    else:
        if any(outcome.values()):
            print_error("Encountered some partition-level error, see the follow-up details.")
        else:
            sys.stdout.write(f"Request succeeded for deleting offsets from group {group}.\n")
    sys.stdout.write(f"\n{'TOPIC':<15} {'PARTITION':<10} {'STATUS':<15}\n")
    unknown = f"Error: {java(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))}"
    rows = [(name, "-", unknown) for name in missing]
    rows += [
        (partition.topic, str(partition.partition), f"Error: {java(found)}" if found is not None else "Successful")
        for partition, found in outcome.items()
    ]
    for topic, number, status in sorted(rows, key=lambda row: (row[0], len(row[1]), row[1])):
        sys.stdout.write(f"{topic:<15} {number:<10} {status:<15}\n")


_GROUP_FAULTS = frozenset(
    {
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    }
)


def _validate_regex(_admin: Admin, given: Given) -> None:
    text = given.need("validate-regex")
    try:
        compile_pattern(text)
    except BadPattern as fault:
        print_error(f"The provided regex {text} is invalid: {fault}")
    else:
        sys.stdout.write(f"The provided regex {text} is valid.\n")
