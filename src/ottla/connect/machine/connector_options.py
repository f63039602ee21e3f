"""The options that every connector has beside its own, by Kafka's names, defaults and places in forms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ottla.connect.chain import ALIASES
from ottla.connect.checks import between, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type, Width
from ottla.connect.converters import CONVERTERS, HEADER_CONVERTERS
from ottla.connect.errors import ConfigException
from ottla.connect.java.regex import compiled
from ottla.connect.plugin import KAFKA_VERSION, found

_PACKAGE: Final = "org.apache.kafka.connect."
CONVERTER_KINDS: Final = ("key", "value", "header")


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The part of a worker's settings that its connectors' options depend on."""

    exactly_once: bool = False
    """True with `exactly.once.source.support=enabled`."""
    converters: Mapping[str, str] = field(default_factory=dict)
    """`key`, `value`, `header` to the worker's own converters; Kafka requires the first two of a worker."""
    resolve: Callable[[str], str] = str
    """Text with the values of its variables, such as `${env:NAME}`; ConfigException for one that has none."""

    def converter(self, kind: str) -> str:
        """The converter of connectors that name none."""
        default = "storage.SimpleHeaderConverter" if kind == "header" else "storage.StringConverter"
        return self.converters.get(kind) or _PACKAGE + default


def view_of(given: Mapping[str, str], resolve: Callable[[str], str], *, exactly_once: bool = False) -> WorkerView:
    """The view of a worker with these properties."""
    named = {kind: given[f"{kind}.converter"] for kind in CONVERTER_KINDS if f"{kind}.converter" in given}
    return WorkerView(exactly_once=exactly_once, converters=named, resolve=resolve)


def options_of(kind: Literal["source", "sink"], worker: WorkerView, version: str = KAFKA_VERSION) -> ConfigDef:
    """The options in common of sources or of sinks, for a plugin of this version."""
    ours = _source_options(worker) if kind == "source" else _SINK
    return ConfigDef(*_common(worker, version), *ours)


def values_of(
    kind: Literal["source", "sink"], config: Mapping[str, str], *, exactly_once: bool = True
) -> dict[str, Any]:
    """The values of the options in common, with dead letters for both kinds; ConfigException for the first fault.

    Without `exactly_once` a connector that requires it is at fault.
    """
    version = config.get("connector.plugin.version", KAFKA_VERSION)  # its validation has compared it
    options = options_of(kind, WorkerView(exactly_once=exactly_once), version)
    values = (options.joined(LETTERS) if kind == "source" else options).parse(config)
    between(-1)("errors.retry.timeout", values["errors.retry.timeout"])  # Kafka's validation takes any number
    between(1)("errors.retry.delay.max.ms", values["errors.retry.delay.max.ms"])
    return values


def _common(worker: WorkerView, plugin_version: str) -> list[Option]:
    options = [
        _common_option("name", Type.STRING, 1, "MEDIUM", "Connector name", check=_name, importance="HIGH",
                       doc="The connector's name, of which there is one in a group of workers."),
        _common_option("connector.class", Type.STRING, 2, "LONG", "Connector class", importance="HIGH",
                       doc="The connector's class, or the last part of its name, with or without Connector."),
        _common_option("connector.plugin.version", Type.STRING, 3, "MEDIUM", "Connector version",
                       plugin_version, importance="MEDIUM", doc="The version of that class.",
                       check=one_of(plugin_version)),
        _common_option("tasks.max", Type.INT, 4, "SHORT", "Tasks max", 1, importance="HIGH", check=between(1),
                       doc="The most tasks of the connector."),
        _common_option("tasks.max.enforce", Type.BOOLEAN, 5, "SHORT", "Enforce tasks max", True,
                       doc="Fail a connector that makes more tasks than tasks.max."),
    ]  # fmt: skip
    options = [_with_version(each, plugin_version) for each in options]
    for order, kind in zip((6, 8, 10), CONVERTER_KINDS, strict=True):
        options += _converter_options(kind, order, worker.converter(kind))
    return [*options, ALIASES["transforms"], ALIASES["predicates"], *_ERRORS]


def _common_option(name: str, kind: Type, order: int, width: str, display: str, default: Any = ..., *,
                   importance: str = "LOW", **more: Any) -> Option:  # fmt: skip
    given = more if default is ... else more | {"default": default}
    return Option(
        name, kind, importance=Importance[importance], group="Common", order=order, width=Width[width],
        display=display, **given,
    )  # fmt: skip


def _with_version(option: Option, version: str = KAFKA_VERSION) -> Option:
    return replace(option, recommended=lambda: [version]) if option.name.endswith("plugin.version") else option


def _converter_options(kind: str, order: int, default: str) -> list[Option]:
    plugins = HEADER_CONVERTERS if kind == "header" else CONVERTERS
    noun = kind.capitalize()

    def known(name: str, value: Any) -> None:
        if value is None:
            return
        try:
            found(plugins, value)
        except ConfigException as fault:
            raise ConfigException.of(name, value, str(fault)) from None

    chosen = _common_option(
        f"{kind}.converter", Type.CLASS, order, "SHORT", f"{noun} converter class", default, check=known,
        doc=f"The converter of {kind}s.",
        recommended=lambda: sorted(name for name in plugins if name.startswith(_PACKAGE)),
    )  # fmt: skip
    version = _common_option(
        f"{kind}.converter.plugin.version", Type.STRING, order + 1, "SHORT", f"{noun} converter version",
        KAFKA_VERSION, doc="The version of that class.",
    )  # fmt: skip
    return [chosen, _with_version(version)]


def _name(name: str, value: Any) -> None:
    if value is None:
        return
    if not value:
        raise ConfigException.of(name, value, "String may not be empty")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise ConfigException.of(name, repr(value), "String may not contain control characters")


def _handling(name: str, kind: Type, default: Any, order: int, width: str, display: str, doc: str,
              check: Any = None) -> Option:  # fmt: skip
    return Option(name, kind, default, Importance.MEDIUM, doc, check, "Error Handling", order, Width[width], display)


_ERRORS: Final = (
    _common_option("config.action.reload", Type.STRING, 14, "MEDIUM", "Reload Action", "restart",
                   check=one_of("none", "restart"), doc="What is done when a secret of a provider changes."),
    _handling("errors.retry.timeout", Type.LONG, 0, 1, "MEDIUM", "Retry Timeout for Errors",
              "For so many milliseconds a failed step is tried again; -1: without end."),
    _handling("errors.retry.delay.max.ms", Type.LONG, 60_000, 2, "MEDIUM", "Maximum Delay Between Retries for Errors",
              "The longest wait between two tries."),
    _handling("errors.tolerance", Type.STRING, "none", 3, "SHORT", "Error Tolerance",
              "none: a record that cannot be handled fails the task; all: it is left out.", one_of("none", "all")),
    _handling("errors.log.enable", Type.BOOLEAN, False, 4, "SHORT", "Log Errors", "Log each failure."),
    _handling("errors.log.include.messages", Type.BOOLEAN, False, 5, "SHORT", "Log Error Details",
              "Log the place of the record that failed."),
)  # fmt: skip


_ONCE: Final = "Exactly Once Support"


def _source_options(worker: WorkerView) -> list[Option]:
    def supported(name: str, value: Any) -> None:
        one_of("requested", "required", any_case=True)(name, value)
        if value.lower() == "required" and not worker.exactly_once:
            raise ConfigException("This worker does not have exactly-once source support enabled.")

    return [
        Option("topic.creation.groups", Type.LIST, [], Importance.LOW, "Groups of topics that are made alike.",
               group="Topic Creation", order=1, width=Width.LONG, display="Topic Creation Groups"),
        Option("exactly.once.support", Type.STRING, "requested", Importance.MEDIUM,
               "required: refuse the connector where records could be written twice.", supported, order=2,
               display="Exactly once support", group=_ONCE, width=Width.SHORT),
        Option("transaction.boundary", Type.STRING, "poll", Importance.MEDIUM, "What one transaction holds.",
               one_of("INTERVAL", "POLL", "CONNECTOR", any_case=True), order=3,
               display="Transaction Boundary", group=_ONCE, width=Width.SHORT),
        Option("transaction.boundary.interval.ms", Type.LONG, None, Importance.LOW,
               "The time that one transaction takes, with transaction.boundary=interval.", _at_least_zero, order=4,
               display="Transaction boundary interval", group=_ONCE, width=Width.SHORT),
        Option("offsets.storage.topic", Type.STRING, None, Importance.LOW, "A topic of its own for the offsets.",
               _not_blank, "offsets.topic", 1, Width.LONG, "Offsets topic"),
    ]  # fmt: skip


def _at_least_zero(name: str, value: Any) -> None:
    if value is not None:
        between(0)(name, value)


def _not_blank(name: str, value: Any) -> None:
    if value is not None and not value.strip():
        raise ConfigException.of(name, value, "String may not be empty")


def _no_blank(name: str, value: Any) -> None:
    if value and "" in value:
        raise ConfigException.of(name, value, "a topic has no name")


LETTERS: Final = ConfigDef(
    _handling("errors.deadletterqueue.topic.name", Type.STRING, "", 6, "MEDIUM", "Dead Letter Queue Topic Name",
              "The topic of records that could not be handled."),
    _handling("errors.deadletterqueue.topic.replication.factor", Type.SHORT, 3, 7, "MEDIUM",
              "Dead Letter Queue Topic Replication Factor", "Of that topic, where it is made."),
    _handling("errors.deadletterqueue.context.headers.enable", Type.BOOLEAN, False, 8, "MEDIUM",
              "Enable Error Context Headers", "Give the records there headers that say what happened."),
)  # fmt: skip
"""Dead letters: options of sinks in Kafka, of sources too here."""
_SINK: Final = (
    _common_option("topics", Type.LIST, 4, "LONG", "Topics", [], importance="HIGH", check=_no_blank,
                   doc="The topics to read."),
    _common_option("topics.regex", Type.STRING, 4, "LONG", "Topics regex", "", importance="HIGH",
                   check=understood(compiled, "Invalid regex: "), doc="A Java expression for the topics to read."),
    *LETTERS,
)  # fmt: skip
