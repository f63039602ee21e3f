"""Check a connector's configuration option by option, as Kafka's `validate` does. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect.chain import alias_options
from ottla.connect.checks import one_of
from ottla.connect.config_def import CheckedValue, ConfigDef, Option, Type
from ottla.connect.converters import HEADER_CONVERTERS
from ottla.connect.errors import ConfigException
from ottla.connect.java.regex import compiled
from ottla.connect.machine.connector_options import CONVERTER_KINDS, LETTERS, WorkerView, options_of
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.plugin import Plugin, found
from ottla.connect.plugins.base import RUNNER, SPARK, SourceConnector
from ottla.connect.plugins.known import AnyConnector, connector

Given = Mapping[str, str | None]
_NULL: Final = "Null value can not be supplied as the configuration value."


@dataclass(frozen=True, slots=True)
class ValidationAnswer:
    """The answer of a validation."""

    plugin: AnyConnector
    checked: Sequence[CheckedValue]
    unknown: Sequence[str]
    """Sentences about keys that are no option. They are no errors, as in Kafka; they are worth a warning."""

    @property
    def errors(self) -> list[str]:
        """All faults, in the order of the options."""
        return [error for each in self.checked for error in each.errors]


def plugin_of(config: Given) -> AnyConnector:
    """The connector that a configuration names; CallRefused if it names none that is known."""
    name = config.get("connector.class")
    if not name:
        shown = ", ".join(f"{key}={value}" for key, value in config.items())
        raise CallRefused(400, f"Connector config {{{shown}}} contains no connector type")
    try:
        return connector(name)
    except ConfigException as fault:
        raise CallRefused(400, str(fault)) from None


def validated(given: Given, worker: WorkerView) -> ValidationAnswer:
    """Check every option of a configuration, with the values that its variables stand for."""
    config, faults = _resolved(given, worker)
    verdict = _validated(config, worker)
    for each in verdict.checked:
        name = each.option.name
        if name in faults:
            each.variable, each.errors = given[name], [faults[name]]
        elif name in given and given[name] != config[name]:
            each.hide(given[name] or "")
    return verdict


def _resolved(given: Given, worker: WorkerView) -> tuple[Given, dict[str, str]]:
    """A configuration with the values of its variables, and the faults of those that have none."""
    config, faults = dict(given), {}
    for name, text in given.items():
        try:
            config[name] = None if text is None else worker.resolve(text)
        except ConfigException as fault:
            faults[name] = str(ConfigException.of(name, text, str(fault)))
    return config, faults


def _validated(config: Given, worker: WorkerView) -> ValidationAnswer:
    plugin = plugin_of(config)
    aliases = alias_options({name: value for name, value in config.items() if value is not None})
    options = ConfigDef(*options_of(plugin.kind, worker, plugin.version), *aliases, *plugin.all_options())
    checked = [*options.validate(config), *_converter_options(config)]
    if plugin.kind == "source":  # sources have dead letters here, but not in Kafka's forms
        checked += [each for each in LETTERS.validate(config) if each.option.name in config]
        options = options.joined(LETTERS)
    if RUNNER in config:
        runner = Option(RUNNER, Type.STRING, plugin.runners[0], check=one_of(*plugin.runners))
        checked += ConfigDef(runner).validate(config)
    by_name = {each.option.name: each for each in checked}
    _check_runner(plugin, config, by_name)
    for kind in CONVERTER_KINDS:
        if by_name[f"{kind}.converter"].errors:
            _forget_version(by_name[f"{kind}.converter.plugin.version"])
    if issubclass(plugin, SourceConnector):
        _check_transactions(plugin, config, by_name)
    else:
        _check_topics(by_name)
    for name, value in config.items():
        if value is None:
            if name not in by_name:
                by_name[name] = CheckedValue(Option(name, Type.STRING, None))
                checked.append(by_name[name])
            by_name[name].errors.append(_NULL)
    if not any(each.errors for each in checked):
        text = {name: value for name, value in config.items() if value is not None}
        for name, fault in plugin.faults(text).items():
            by_name[name].errors.append(fault)
    own = re.compile(plugin.free_options or r"(?!)")
    strange = {name: value for name, value in config.items() if not _FREE.match(name) and not own.fullmatch(name)}
    return ValidationAnswer(plugin, checked, options.unknown(strange))


_FREE: Final = re.compile(
    r"(producer|consumer|admin)\.override\.|topic\.creation\.|ottla\.|(key|value|header)\.converter\."
)
"""Keys that are not listed one by one: options of clients, of topics that are made, of converters."""


def _forget_version(version: CheckedValue) -> None:
    """A class that is not there has no version."""
    version.option = replace(version.option, default=None, recommended=tuple)
    version.value = None


def require_valid(name: str, config: Given, worker: WorkerView) -> AnyConnector:
    """The plugin of a configuration without faults; CallRefused lists the faults, as Kafka does."""
    verdict = validated(config, worker)
    if verdict.errors:
        errors = "\n".join(verdict.errors)
        raise CallRefused(
            400,
            f"Connector configuration is invalid and contains the following {len(verdict.errors)} error(s):\n{errors}\n"
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`",
        )
    return verdict.plugin


def _converter_options(config: Given) -> list[CheckedValue]:
    """The options of converters that the configuration names itself; faults name them without the prefix, as Kafka."""
    checked: list[CheckedValue] = []
    for kind in CONVERTER_KINDS:
        prefix, plugin = f"{kind}.converter.", _converter(config.get(f"{kind}.converter"))
        below = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
        for each in plugin.options.validate({"converter.type": kind, **below}) if plugin else ():
            own = each.option.name
            option = replace(each.option, name=prefix + own, display=each.option.display or own)
            checked.append(CheckedValue(option, each.value, each.errors))
    return checked


def _converter(name: str | None) -> Plugin[Any] | None:
    """The converter of a class; None for an unknown one, of which the check of the class says so."""
    try:
        return found(HEADER_CONVERTERS, name) if name else None
    except ConfigException:
        return None


def _check_runner(plugin: AnyConnector, config: Given, checked: Mapping[str, CheckedValue]) -> None:
    """A connector whose configuration can run on Spark does so alone, and Spark's options are for it."""
    if config.get(RUNNER) != "spark":
        for option in SPARK if "spark" in plugin.runners else ():
            if config.get(option.name):
                checked[option.name].errors.append(f"{option.name} has an effect with {RUNNER}=spark alone")
    elif "spark" in plugin.runners:
        text = {name: value for name, value in config.items() if value is not None}
        if not any(each.errors for each in checked.values()) and (why := plugin.against_spark(text)):
            checked[RUNNER].errors.append(f"Invalid value spark for configuration {RUNNER}: {why}")


def _check_transactions(plugin: type[SourceConnector], config: Given, checked: Mapping[str, CheckedValue]) -> None:
    """A connector that must deliver exactly once can, and one that is to end transactions does; in Kafka's words."""
    text = {name: value for name, value in config.items() if value is not None}
    wanted, boundary = checked["exactly.once.support"], checked["transaction.boundary"]
    if str(wanted.value).lower() == "required" and not wanted.errors:
        able = plugin.exactly_once(text)
        if able is None:
            wanted.errors.append(
                "The connector does not implement the API required for preflight validation of exactly-once source "
                "support. Please consult the documentation for the connector to determine whether it supports "
                'exactly-once semantics, and then consider reconfiguring the connector to use the value "requested" '
                "for this property (which will disable this preflight check and allow the connector to be created)."
            )
        elif not able:
            wanted.errors.append(
                "The connector does not support exactly-once semantics with the provided configuration."
            )
    if str(boundary.value).lower() == "connector" and not boundary.errors and not plugin.defines_transactions(text):
        boundary.errors.append(
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition."
        )


def _check_topics(checked: Mapping[str, CheckedValue]) -> None:
    """A sink reads topics or a pattern of topics, and not the topic of its own dead letters."""
    topics, pattern = checked["topics"], checked["topics.regex"]
    letters = checked["errors.deadletterqueue.topic.name"].value
    if topics.value and pattern.value:
        fault = "topics and topics.regex are mutually exclusive options, but both are set."
    elif not topics.value and not pattern.value and not pattern.errors:
        fault = "Must configure one of topics or topics.regex"
    else:
        if letters and letters in (topics.value or ()):
            topics.errors.append(
                f"The DLQ topic '{letters}' may not be included in the list of topics "
                f"('topics=[{', '.join(topics.value)}]') consumed by the connector"
            )
        elif letters and pattern.value and not pattern.errors and _matches(pattern.value, letters):
            pattern.errors.append(
                f"The DLQ topic '{letters}' may not be matched by the regex for the topics "
                f"('topics.regex={pattern.value}') consumed by the connector"
            )
        return
    topics.errors.append(fault)
    pattern.errors.append(fault)


def _matches(pattern: str, topic: str) -> bool:
    return compiled(pattern).fullmatch(topic) is not None


def groups_of(checked: Sequence[CheckedValue]) -> list[str]:
    """The groups of a form, in the order in which they are met."""
    return list(dict.fromkeys(each.option.group for each in checked if each.option.group))
