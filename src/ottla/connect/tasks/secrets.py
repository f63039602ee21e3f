"""Values from outside a configuration: `${env:NAME}`, `${file:PATH:KEY}`, `${directory:PATH:FILE}`.

Only providers that the worker's `config.providers` names are asked, by Kafka's classes and parameters. Configurations
are kept and shown unresolved; a task resolves its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from ottla.config.option import nearest
from ottla.config.properties import parse_properties
from ottla.connect.errors import ConfigException
from ottla.connect.machine.decide import task_configs
from ottla.connect.plugins.known import AnyConnector

_VARIABLE: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_SHORTEST: Final = 3
"""Shorter values are no secrets, and stand everywhere."""
_PACKAGE: Final = "org.apache.kafka.common.config.provider."


class Provider(Protocol):
    """Gives values by path and key."""

    def __call__(self, path: str, key: str) -> str:
        """The value; ConfigException names what is missing."""


def providers_of(worker: Mapping[str, str]) -> dict[str, Provider]:
    """The providers of a worker by their aliases."""
    found: dict[str, Provider] = {}
    for alias in filter(None, (part.strip() for part in worker.get("config.providers", "").split(","))):
        java_class = worker.get(f"config.providers.{alias}.class")
        if java_class is None:
            raise ConfigException(f"config.providers names {alias}: set config.providers.{alias}.class")
        short = java_class.removeprefix(_PACKAGE)
        if short not in _MAKERS:
            known = [_PACKAGE + name for name in _MAKERS]
            raise ConfigException(
                f"config.providers.{alias}.class: {java_class} is not known{nearest(java_class, known)}; "
                f"there are {', '.join(known)}"
            )
        option, make = _MAKERS[short]
        prefix = f"config.providers.{alias}.param."
        for name in worker:
            if name.startswith(prefix) and name != prefix + option:
                raise ConfigException(f"{name}: {java_class} has no such parameter; it has {prefix + option}")
        found[alias] = make(worker.get(prefix + option))
    return found


class Secrets:
    """Puts the values of a worker's providers in place of variables, and takes them out of what is shown."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._providers = providers_of(worker)

    def text(self, text: str) -> str:
        """Text with the values in place of its variables; those of other providers stay."""
        return _VARIABLE.sub(self._value, text) if "${" in text else text

    def config(self, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration with the values in place of its variables."""
        return {name: self.text(text) for name, text in config.items()}

    def hidden(self, shown: str, config: Mapping[str, str]) -> str:
        """Text that is shown, with variables of a configuration in place of their values."""
        variables = {self._value(found): found[0] for text in config.values() for found in _VARIABLE.finditer(text)}
        for value in sorted(variables, key=len, reverse=True):
            if len(value) >= _SHORTEST:
                shown = shown.replace(value, variables[value])
        return shown

    def _value(self, match: re.Match[str]) -> str:
        provider = self._providers.get(match[1])
        return match[0] if provider is None else provider(match[2] or "", match[3])


def tasks_of(plugin: AnyConnector, config: Mapping[str, str], secrets: Secrets) -> list[dict[str, str]]:
    """The configurations of a connector's tasks, made with its secrets and kept without; raises what the plugin raises.

    A task resolves its own as it begins.
    """
    whole = secrets.config(config)
    made = task_configs(plugin, whole)
    return [
        {name: config[name] if whole.get(name) == value else value for name, value in each.items()} for each in made
    ]


def _environment(pattern: str | None) -> Provider:
    def value(path: str, key: str) -> str:
        if path:
            raise ConfigException(f"${{…:{path}:{key}}}: a variable of the environment has no path")
        if pattern is not None and not re.fullmatch(pattern, key):
            raise ConfigException(f"the variable {key} is not one that allowlist.pattern allows")
        if key not in os.environ:
            raise ConfigException(f"the environment has no variable {key}{nearest(key, os.environ)}")
        return os.environ[key]

    return value


def _file(allowed: str | None) -> Provider:
    def value(path: str, key: str) -> str:
        found = parse_properties(_content(path, allowed))
        if key not in found:
            raise ConfigException(f"the file {path} has no key {key}{nearest(key, found)}")
        return found[key]

    return value


def _directory(allowed: str | None) -> Provider:
    def value(path: str, key: str) -> str:
        if "/" in key or key in ("", ".", ".."):
            raise ConfigException(f"{key!r} is not the name of a file in {path}")
        return _content(str(Path(path) / key), allowed)

    return value


def _content(path: str, allowed: str | None) -> str:
    real = Path(path).resolve()
    if allowed is not None and not any(
        real.is_relative_to(Path(each.strip()).resolve()) for each in allowed.split(",")
    ):
        raise ConfigException(f"the file {path} is not below one of allowed.paths")
    try:
        return real.read_text()
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigException(f"the file {path} cannot be read: {fault}") from None


_MAKERS: Final = {
    "EnvVarConfigProvider": ("allowlist.pattern", _environment),
    "FileConfigProvider": ("allowed.paths", _file),
    "DirectoryConfigProvider": ("allowed.paths", _directory),
}
