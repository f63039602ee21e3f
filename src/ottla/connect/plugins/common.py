"""The options that all connectors have besides their own, with their places in a form: as in Kafka, and few of ours."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.chain import ALIASES
from ottla.connect.checks import all_of, between, distinct, non_empty_text, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type, Validator, Width
from ottla.connect.converters import CONVERTERS, HEADER_CONVERTERS
from ottla.connect.errors import ConfigException
from ottla.connect.java.regex import compiled
from ottla.connect.plugin import KAFKA_VERSION, found

_ERRORS: Final = "Error Handling"


def _named(plugins: Any) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is not None:
            try:
                found(plugins, value)
            except ConfigException as fault:
                raise ConfigException.of(name, value, str(fault)) from None

    return check


def _converter(part: str, order: int, plugins: Any) -> list[Option]:
    title = part.capitalize()
    return [
        Option(f"{part}.converter", Type.CLASS, None, Importance.LOW,
               f"The converter of {part}s; the worker's if there is none.", _named(plugins), "Common", order,
               Width.SHORT, f"{title} converter class", recommended=lambda: sorted(plugins)),
        Option(f"{part}.converter.plugin.version", Type.STRING, None, Importance.LOW,
               "The version of the converter.", None, "Common", order + 1, Width.SHORT, f"{title} converter version",
               recommended=lambda: [KAFKA_VERSION]),
    ]  # fmt: skip


COMMON: Final = ConfigDef(
    Option("name", Type.STRING, importance=Importance.HIGH, doc="The connector's name, unique in its cluster.",
           check=non_empty_text, group="Common", order=1, width=Width.MEDIUM, display="Connector name"),
    Option("connector.class", Type.STRING, importance=Importance.HIGH,
           doc="The connector's class, the last part of its name, or that without Connector.", group="Common", order=2,
           width=Width.LONG, display="Connector class"),
    Option("connector.plugin.version", Type.STRING, None, Importance.MEDIUM, "The version of the connector.", None,
           "Common", 3, Width.MEDIUM, "Connector version"),
    Option("tasks.max", Type.INT, 1, Importance.HIGH, "The most tasks of the connector.", between(1), "Common", 4,
           Width.SHORT, "Tasks max"),
    Option("tasks.max.enforce", Type.BOOLEAN, True, Importance.LOW, "Refuse more tasks than tasks.max.", None,
           "Common", 5, Width.SHORT, "Enforce tasks max"),
    *_converter("key", 6, CONVERTERS), *_converter("value", 8, CONVERTERS),
    *_converter("header", 10, HEADER_CONVERTERS),
    *ALIASES.values(),
    Option("config.action.reload", Type.STRING, "restart", Importance.LOW,
           "What follows when a provider's value changes: none or restart.", one_of("none", "restart"), "Common", 14,
           Width.MEDIUM, "Reload Action"),
    Option("errors.retry.timeout", Type.LONG, 0, Importance.MEDIUM,
           "The time in milliseconds for which an operation that may succeed later is tried again; -1: without end.",
           between(-1), _ERRORS, 1, Width.MEDIUM, "Retry Timeout for Errors"),
    Option("errors.retry.delay.max.ms", Type.LONG, 60_000, Importance.MEDIUM, "The longest wait between two attempts.",
           between(1), _ERRORS, 2, Width.MEDIUM, "Maximum Delay Between Retries for Errors"),
    Option("errors.tolerance", Type.STRING, "none", Importance.MEDIUM,
           "none: a bad record ends the task. all: it is left out, logged and sent to dead letters if that is on.",
           one_of("none", "all"), _ERRORS, 3, Width.SHORT, "Error Tolerance"),
    Option("errors.log.enable", Type.BOOLEAN, False, Importance.MEDIUM, "Log each bad record.", None, _ERRORS, 4,
           Width.SHORT, "Log Errors"),
    Option("errors.log.include.messages", Type.BOOLEAN, False, Importance.MEDIUM,
           "Log what bad records hold. It may be secret.", None, _ERRORS, 5, Width.SHORT, "Log Error Details"),
)  # fmt: skip
"""The options of connectors of both kinds."""
LETTERS: Final = ConfigDef(
    Option("errors.deadletterqueue.topic.name", Type.STRING, "", Importance.MEDIUM,
           "The topic of records that were refused; none if it is empty.", None, _ERRORS, 6, Width.MEDIUM,
           "Dead Letter Queue Topic Name"),
    Option("errors.deadletterqueue.topic.replication.factor", Type.SHORT, 3, Importance.MEDIUM,
           "The replication factor of that topic where it is made.", None, _ERRORS, 7, Width.MEDIUM,
           "Dead Letter Queue Topic Replication Factor"),
    Option("errors.deadletterqueue.context.headers.enable", Type.BOOLEAN, False, Importance.MEDIUM,
           "Put headers on dead letters that say where from and why.", None, _ERRORS, 8, Width.MEDIUM,
           "Enable Error Context Headers"),
)  # fmt: skip
"""Dead letters: options of sinks in Kafka, of sources too here."""
SOURCE: Final = COMMON.joined(
    ConfigDef(
        Option("topic.creation.groups", Type.LIST, [], Importance.LOW, "Groups of topics with options of their own.",
               distinct(may_be_empty=True), "Topic Creation", 1, Width.LONG, "Topic Creation Groups"),
        Option("exactly.once.support", Type.STRING, "requested", Importance.MEDIUM,
               "required: refuse to run without exactly-once.", one_of("required", "requested", any_case=True),
               "Exactly Once Support", 2, Width.SHORT, "Exactly once support"),
        Option("transaction.boundary", Type.STRING, "poll", Importance.MEDIUM, "Where transactions end.",
               one_of("poll", "interval", "connector", any_case=True), "Exactly Once Support", 3, Width.SHORT,
               "Transaction Boundary"),
        Option("transaction.boundary.interval.ms", Type.LONG, None, Importance.LOW, "The time of a transaction.", None,
               "Exactly Once Support", 4, Width.SHORT, "Transaction boundary interval"),
        Option("offsets.storage.topic", Type.STRING, None, Importance.LOW, "A topic of its own for offsets.",
               non_empty_text, "offsets.topic", 1, Width.LONG, "Offsets topic"),
    )
)  # fmt: skip
"""The options of source connectors."""


def _topics(name: str, value: Any) -> None:
    if value and "" in value:
        raise ConfigException.of(name, value, "a topic has no name")


SINK: Final = COMMON.joined(
    ConfigDef(
        Option("topics", Type.LIST, [], Importance.HIGH, "The topics to read, with commas between.", _topics, "Common",
               4, Width.LONG, "Topics"),
        Option("topics.regex", Type.STRING, "", Importance.HIGH,
               "A Java regular expression; topics that match it as a whole are read.",
               all_of(understood(compiled, "Invalid regex: ")), "Common", 4, Width.LONG, "Topics regex"),
    ),
    LETTERS,
)  # fmt: skip
"""The options of sink connectors."""


def check_topics(topics: list[str], pattern: str, letters: str) -> None:
    """Raise `ConfigException` unless a sink has either topics or a pattern, and its dead letters go elsewhere."""
    if topics and pattern:
        raise ConfigException("topics and topics.regex are mutually exclusive options, but both are set.")
    if not topics and not pattern:
        raise ConfigException("Must configure one of topics or topics.regex")
    if letters and (letters in topics or (pattern and compiled(pattern).fullmatch(letters))):
        raise ConfigException(
            f"The topic {letters} for dead letters is one of those that the connector reads: it would read its letters"
        )
