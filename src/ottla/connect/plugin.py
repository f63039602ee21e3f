"""A plugin's entry in the list of those that there are: its Java name, its options, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ottla.config.option import nearest
from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException

Made_co = TypeVar("Made_co", covariant=True)


KAFKA_VERSION: Final = "4.3.1"
"""The version of Apache Kafka whose plugins these answer like; interfaces show it as theirs."""


@dataclass(frozen=True, slots=True)
class Plugin(Generic[Made_co]):
    """One class of a kind of plugins."""

    kind: str
    java_class: str
    options: ConfigDef
    make: Callable[[Mapping[str, Any]], Made_co]
    """Makes one from its configuration; raises `ConfigException`."""

    @property
    def short(self) -> str:
        """The class without its package."""
        return self.java_class.rpartition(".")[2]


def found(plugins: Mapping[str, Plugin[Made_co]], name: str) -> Plugin[Made_co]:
    """The plugin of a Java class, or of the last part of its name."""
    plugin = plugins.get(name)
    if plugin is None:
        plugin = next((each for each in plugins.values() if name == each.short), None)
    if plugin is None:
        known = [*plugins, *(each.short for each in plugins.values())]
        raise ConfigException(f"Class {name} could not be found{nearest(name, known)}.")
    return plugin


def by_class(*plugins: Plugin[Made_co]) -> dict[str, Plugin[Made_co]]:
    """Plugins by their Java class."""
    return {plugin.java_class: plugin for plugin in plugins}
