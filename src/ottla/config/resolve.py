"""The value of an option from its layers: defaults < file < environment < command line < dynamic.

`read_static` reads the first four once, at start; `Layers` puts the dynamic ones (kept in the metadata log) on top
and makes the typed configurations. `describe.py` tells clients where each value came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.config.broker_checks import STANDARD_AUTHORIZER
from ottla.config.group import GroupConfig
from ottla.config.listeners import (
    listeners_at_odds,
    named_as_kafka_does,
    secured_listeners,
    unsafe_listeners,
    without,
)
from ottla.config.option import ConfigError, Option, OptionSet, OptionStatus, nearest
from ottla.config.topic import TopicConfig
from ottla.config.units import plain_numbers

_PREFIX = "KAFKA_"
_LAUNCHER_NAMES = ("HEAP_", "JVM_", "JMX_", "LOG4J", "GC_", "DEBUG", "CLASSPATH")
"""KAFKA_ names that Kafka's start scripts read, and no option."""
_LAUNCHER_WHOLE = frozenset({"OPTS", "HOME", "VERSION", "MODE", "EXTRA_ARGS", "URI", "SCALA_VERSION"})
_PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "listener.name.")
NO_TEXTS: Mapping[str, str] = {}
OptionSetT = TypeVar("OptionSetT", bound=OptionSet)


class ConfigLayer(IntEnum):
    """The layer that a value came from; the numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class StaticConfig(NamedTuple):
    """The options given at start."""

    texts: Mapping[str, str]
    warnings: tuple[str, ...]


def read_static(
    *,
    file: str | Path | None = None,
    environment: Mapping[str, str] = NO_TEXTS,
    command_line: Mapping[str, str] = NO_TEXTS,
) -> StaticConfig:
    """Read and check everything said at start; ConfigError lists all that is wrong, OSError if the file is not there.

    Unknown names are errors in a file and on the command line, and warnings in the environment, where other programs'
    variables live too. Options without effect are named in one warning.
    """
    from ottla.config.known import broker_options
    from ottla.config.zookeeper import zookeeper_tls

    known = broker_options()
    problems: list[str] = []
    warnings: list[str] = []
    texts: dict[str, str] = {}
    if file is not None:
        from ottla.config.properties import parse_properties

        read = parse_properties(Path(file).read_text(encoding="utf-8"))
        problems += [f"{file}: {wrong}" for wrong in _unknown(read, known)]
        if "listeners" in command_line and (secured := secured_listeners(read)):
            problems.append(
                f"{file}: --port and --listen would replace {', '.join(secured)}, which asks for more than they do: "
                "leave them out"
            )
        texts |= read
    named = environment_texts(environment)
    warnings += [f"environment: {wrong}; ignored" for wrong in _unknown(named, known)]
    texts |= {name: text for name, text in named.items() if _is_known(name, known)}
    problems += _unknown(command_line, known)
    texts |= command_line
    if texts.get("broker.id", "-1") != "-1":  # the older name of node.id
        texts.setdefault("node.id", texts["broker.id"])
    texts, wrong_units = plain_numbers(texts, known)
    problems += wrong_units or _wrong_values(texts, known)
    problems += unsafe_listeners(texts)
    problems += [] if problems else zookeeper_tls(texts)[1]
    problems += [] if problems else _at_odds(Layers(texts).broker())
    if problems:
        raise ConfigError(*problems)
    if idle := [name for name in sorted(texts) if _is_idle(name, known)]:
        warnings.append(f"without effect here: {', '.join(idle)}")
    return StaticConfig(texts, tuple(warnings))


def environment_texts(environment: Mapping[str, str]) -> dict[str, str]:
    """KAFKA_LOG_RETENTION_MS is log.retention.ms; __ stands for a dash, ___ for an underscore."""
    found = {}
    for variable, text in environment.items():
        rest = variable.removeprefix(_PREFIX)
        if rest == variable or not rest or rest.startswith(_LAUNCHER_NAMES) or rest in _LAUNCHER_WHOLE:
            continue
        name = rest.lower().replace("___", "\0").replace("__", "-").replace("_", ".").replace("\0", "_")
        found[name] = text
    return found


class Layers:
    """The texts of one broker's options, layer over layer; makes the typed configurations."""

    __slots__ = ("default_dynamic", "dynamic", "static")

    def __init__(
        self,
        static: Mapping[str, str] = NO_TEXTS,
        default_dynamic: Mapping[str, str] = NO_TEXTS,
        dynamic: Mapping[str, str] = NO_TEXTS,
    ) -> None:
        """`default_dynamic` is for all brokers, `dynamic` for this one."""
        self.static = static
        self.default_dynamic = default_dynamic
        self.dynamic = dynamic

    def given(self, name: str) -> list[tuple[ConfigLayer, str]]:
        """The values given for a broker option, the strongest first."""
        layers = (
            (ConfigLayer.DYNAMIC_BROKER_CONFIG, self.dynamic),
            (ConfigLayer.DYNAMIC_DEFAULT_BROKER_CONFIG, self.default_dynamic),
            (ConfigLayer.STATIC_BROKER_CONFIG, self.static),
        )
        return [(source, texts[name]) for source, texts in layers if name in texts]

    def number(self, name: str) -> int | None:
        """A broker option that is a whole number, in effect; None where there is no such option."""
        from ottla.config.known import broker_options

        declared = broker_options().get(name)
        if declared is None:
            return None
        texts = self.given(name)
        value = declared.parse(texts[0][1]) if texts else declared.default
        return value if isinstance(value, int) else None

    def broker(self) -> BrokerConfig:
        """This broker's own configuration, without the listeners meant for a controller."""
        config = BrokerConfig.of_texts(self._strongest())
        controllers = self.static.get("controller.listener.names", "")
        between_brokers = config.inter_broker_listener_name
        return config.replace(
            listeners=without(controllers, named_as_kafka_does(config.listeners)),
            advertised_listeners=without(controllers, named_as_kafka_does(config.advertised_listeners)),
            inter_broker_listener_name=None if between_brokers is None else between_brokers.upper(),
        )

    def topic(self, overrides: Mapping[str, str] = NO_TEXTS) -> TopicConfig:
        """A topic's configuration: its own options over the broker's defaults."""
        return _with_segment_override(self._filled(TopicConfig, overrides))

    def group(self, overrides: Mapping[str, str] = NO_TEXTS) -> GroupConfig:
        return self._filled(GroupConfig, overrides)

    def _filled(self, kind: type[OptionSetT], overrides: Mapping[str, str]) -> OptionSetT:
        texts = {name: text for name, text in overrides.items() if name in kind.BY_NAME}
        for declared in kind.OPTIONS:
            if declared.name not in texts and (text := self._inherited(declared)) is not None:
                texts[declared.name] = text
        return kind.of_texts(texts)

    def _inherited(self, declared: Option) -> str | None:
        """The value that the broker options give; of several units the finest that is set wins."""
        for synonym in declared.synonyms:
            if texts := self.given(synonym.name):
                text = texts[0][1].strip()
                return text if synonym.factor == 1 else str(_longer(int(text), synonym.factor))
        return None

    def _strongest(self) -> dict[str, str]:
        return {**self.static, **self.default_dynamic, **self.dynamic}


def topic_problems(overrides: Mapping[str, str], layers: Layers) -> str | None:
    """The fault of the options given for a topic, in Kafka's words; None if they may be stored."""
    for name in overrides:
        if name not in TopicConfig.BY_NAME:
            return f"Unknown topic config name: {name}{nearest_topic_option(name)}"
    try:
        config = layers.topic(overrides)
    except ConfigError as fault:
        return fault.problems[0]
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        return (
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
    return None


def nearest_topic_option(name: str) -> str:
    """' (did you mean x?)': the topic option that a broker option gives its default, or the most alike."""
    for declared in TopicConfig.OPTIONS:
        if any(synonym.name == name for synonym in declared.synonyms):
            return f" (did you mean {declared.name}?)"
    return nearest(name, TopicConfig.BY_NAME)


def group_problems(overrides: Mapping[str, str], layers: Layers) -> str | None:
    """The fault of the options given for a group: each lies between bounds that are broker options."""
    for name in overrides:
        if name not in GroupConfig.BY_NAME:
            return f"Unknown group config name: {name}{nearest(name, GroupConfig.BY_NAME)}"
    try:
        config = layers.group(overrides)
    except ConfigError as fault:
        return fault.problems[0]
    for name in overrides:
        kind, _, rest = name.partition(".")
        for bound, fits in (("min", _not_below), ("max", _not_above)):
            limit = layers.number(f"group.{kind}.{bound}.{rest}")
            value = config.value(name)
            if limit is not None and isinstance(value, int) and not fits(value, limit):
                side = "greater" if bound == "min" else "less"
                return f"{name} must be {side} than or equal to group.{kind}.{bound}.{rest}"
    return None


def _not_below(value: int, limit: int) -> bool:
    return value >= limit


def _not_above(value: int, limit: int) -> bool:
    return value <= limit


def _longer(value: int, factor: int) -> int:
    return -1 if value < 0 else value * factor


def _with_segment_override(config: TopicConfig) -> TopicConfig:
    override = config.internal_segment_bytes
    return config if override is None else config.replace(segment_bytes=override)


def _is_known(name: str, known: Mapping[str, Option]) -> bool:
    return name in known or name.startswith(_PLUGIN_PREFIXES)


def _is_idle(name: str, known: Mapping[str, Option]) -> bool:
    return not name.startswith("listener.name.") and (name not in known or known[name].status is OptionStatus.NO_EFFECT)


def _unknown(texts: Mapping[str, str], known: Mapping[str, Option]) -> list[str]:
    return [f"unknown option {name}{nearest(name, known)}" for name in texts if not _is_known(name, known)]


def _wrong_values(texts: Mapping[str, str], known: Mapping[str, Option]) -> list[str]:
    problems: list[str] = []
    for name, text in texts.items():
        if name in known:
            try:
                known[name].parse(text)
            except ConfigError as fault:
                problems.extend(fault.problems)
    return problems


def _at_odds(config: BrokerConfig) -> list[str]:
    """Faults of options that contradict each other, in Kafka's words."""
    problems = listeners_at_odds(config)
    wait_ms = config.replica_fetch_wait_max_ms
    if wait_ms > config.replica_socket_timeout_ms:
        problems.append(
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
            "socket timeouts"
        )
    if wait_ms > config.replica_lag_time_max_ms:
        problems.append(
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
            "frequent changes in ISR"
        )
    if not config.authorizer_class_name and (config.super_users or config.allow_everyone_if_no_acl_found):
        problems.append(
            "super.users and allow.everyone.if.no.acl.found limit nobody without an authorizer: set "
            f"authorizer.class.name={STANDARD_AUTHORIZER} too, or take them out"
        )
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        value = _number(config, f"group.consumer.{name}")
        if value < _number(config, f"group.consumer.min.{name}"):
            problems.append(f"group.consumer.{name} must be greater than or equal to group.consumer.min.{name}")
        if value > _number(config, f"group.consumer.max.{name}"):
            problems.append(f"group.consumer.{name} must be less than or equal to group.consumer.max.{name}")
    return problems


def _number(config: BrokerConfig, name: str) -> int:
    value = config.value(name)
    assert isinstance(value, int)
    return value
