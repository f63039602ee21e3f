"""The plugins that there are and their options; whether a configuration can be used. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ottla.connect.config_def import ConfigDef, Option
from ottla.connect.converters import CONVERTERS, HEADER_CONVERTERS
from ottla.connect.errors import ConfigException
from ottla.connect.machine.connector_options import WorkerView, options_of
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.validation import Given, groups_of, plugin_of, validated
from ottla.connect.plugin import KAFKA_VERSION, found
from ottla.connect.plugins.known import connector, connectors, names
from ottla.connect.predicates import PREDICATES
from ottla.connect.transforms import TRANSFORMATIONS

_KINDS: Final = "sink, source, converter, header_converter, transformation, predicate"
_PROVIDERS: Final = "org.apache.kafka.common.config.provider."


def listed(*, connectors_only: bool) -> list[dict[str, object]]:
    """The connectors, or all plugins. A connector that may run elsewhere than in the worker has `runners`, too."""
    rows: list[tuple[str, str, str]] = [(each.java_class, each.kind, each.version) for each in connectors().values()]
    if not connectors_only:
        rows += [(name, "converter", KAFKA_VERSION) for name in CONVERTERS]
        rows += [(name, "header_converter", KAFKA_VERSION) for name in HEADER_CONVERTERS]
        rows += [(name, "transformation", KAFKA_VERSION) for name in TRANSFORMATIONS]
        rows += [(name, "predicate", KAFKA_VERSION) for name in PREDICATES]
    elsewhere = {each.java_class: list(each.runners) for each in connectors().values() if len(each.runners) > 1}
    return [
        {"class": name, "type": kind, "version": version} | ({"runners": elsewhere[name]} if name in elsewhere else {})
        for name, kind, version in dict.fromkeys(rows)
    ]


def options(name: str, version: str | None, worker: WorkerView) -> list[dict[str, object]]:
    """The options of a plugin; of a connector also those that all connectors have."""
    java_class, known, of_class = _found(name, worker)
    if version is not None and version != known:
        wanted = f"[{version},{version}]" if version else "[,]"
        raise CallRefused(
            400, f"Plugin {java_class} not found that matches the version range {wanted}, available versions: [{known}]"
        )
    return of_class.definitions()


def _found(name: str, worker: WorkerView) -> tuple[str, str, ConfigDef]:
    """Class, version and options of a plugin. Transformations and predicates are found by their whole class only."""
    try:
        plugin = connector(name)
        common = [_of_no_worker(each) for each in options_of(plugin.kind, worker, plugin.version)]
        return plugin.java_class, plugin.version, ConfigDef(*plugin.all_options(), *common)
    except ConfigException:
        pass
    for plugins in (TRANSFORMATIONS, PREDICATES):
        if name in plugins:
            return name, KAFKA_VERSION, plugins[name].options
    if name.startswith(_PROVIDERS):
        raise CallRefused(400, f"Invalid plugin class {name}. Valid types are {_KINDS}.")
    try:
        converter = found(HEADER_CONVERTERS, name)
    except ConfigException:
        raise CallRefused(404, f"Unknown plugin {name}.") from None
    return converter.java_class, KAFKA_VERSION, converter.options


def _of_no_worker(option: Option) -> Option:
    """An option without the default that a worker's own settings give it."""
    return replace(option, default=None) if ".converter" in option.name else option


def verdict(name: str, config: Given, worker: WorkerView) -> dict[str, Any]:
    """The answer of a validation. Kafka answers 500 where the class is missing or unknown; that is 400 here."""
    plugin = plugin_of(config)
    if name not in names(plugin):
        raise CallRefused(
            400, f"Included connector type {config['connector.class']} does not match request type {name}"
        )
    found_faults = validated(config, worker)
    return {
        "name": config["connector.class"],
        "error_count": len(found_faults.errors),
        "groups": groups_of(found_faults.checked),
        "configs": [each.answer() for each in found_faults.checked],
    }
