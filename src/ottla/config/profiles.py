"""Profiles: names for clusters and registries, kept in a file of the user, and which cluster a command speaks to.

Options given to a command come first; then a profile named for it (`--profile`, `OTTLA_PROFILE`); then the environment
(`OTTLA_BOOTSTRAP_SERVERS`, `OTTLA_REGISTRY`); then the profile in use (`ottla profile use`); then this machine.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ottla.config.option import nearest

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_REGISTRY = "http://localhost:8081"
BOOTSTRAP_VARIABLE, REGISTRY_VARIABLE, PROFILE_VARIABLE = "OTTLA_BOOTSTRAP_SERVERS", "OTTLA_REGISTRY", "OTTLA_PROFILE"
_NOBODY = "the default"
_KEYS = ("bootstrap_servers", "registry", "command_config")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ProfileError(ValueError):
    """A profile that does not exist, or a file of profiles that cannot be used; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Addresses under one name; an empty one is not known."""

    bootstrap_servers: str = ""
    registry: str = ""
    command_config: str = ""
    """The file with options of clients, as the path of --command-config."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles of a user."""

    by_name: Mapping[str, Profile] = field(default_factory=dict)
    in_use: str | None = None

    def find(self, name: str) -> Profile:
        """The profile, or ProfileError."""
        found = self.by_name.get(name)
        if found is None:
            hint = nearest(name, self.by_name) or "; `ottla profile list` shows those that there are"
            raise ProfileError(f"there is no profile {name!r}{hint}")
        return found


class ChosenAddress(NamedTuple):
    """An address, and who said it."""

    address: str
    origin: str
    command_config: str = ""
    """The file with options of clients that goes with it."""

    @property
    def is_default(self) -> bool:
        """True if nobody said it."""
        return self.origin == _NOBODY


def bootstrap_servers(environment: Mapping[str, str], profile: str | None = None) -> ChosenAddress:
    """The brokers of a command that was given none; `profile` is that of `--profile`."""
    return _chosen(environment, profile, "bootstrap_servers", BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP)


def registry_url(environment: Mapping[str, str], profile: str | None = None) -> ChosenAddress:
    """The registry of a command that was given none."""
    return _chosen(environment, profile, "registry", REGISTRY_VARIABLE, DEFAULT_REGISTRY)


def _chosen(
    environment: Mapping[str, str], profile: str | None, key: str, variable: str, default: str
) -> ChosenAddress:
    if named := profile or environment.get(PROFILE_VARIABLE):
        found = read_profiles(environment).find(named)
        address = getattr(found, key)
        if not address:
            raise ProfileError(
                f"profile {named} has no {key.replace('_', ' ')}: `ottla profile add --replace` gives it one"
            )
        return ChosenAddress(address, f"profile {named}", found.command_config)
    if from_variable := environment.get(variable):
        return ChosenAddress(from_variable, variable)
    profiles = read_profiles(environment)
    if profiles.in_use is not None and (address := getattr(used := profiles.find(profiles.in_use), key)):
        return ChosenAddress(address, f"profile {profiles.in_use}, in use", used.command_config)
    return ChosenAddress(default, _NOBODY)


def profiles_path(environment: Mapping[str, str]) -> Path:
    """`ottla/profiles.toml` below `XDG_CONFIG_HOME`, which is `~/.config` unless it is set."""
    base = environment.get("XDG_CONFIG_HOME", "")
    home = environment.get("HOME") or os.path.expanduser("~")
    return Path(base if os.path.isabs(base) else os.path.join(home, ".config"), "ottla", "profiles.toml")


def read_profiles(environment: Mapping[str, str]) -> Profiles:
    """The profiles of the user; none if there is no file."""
    path = profiles_path(environment)
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Profiles()
    try:
        return parse_profiles(content.decode())
    except ValueError as fault:
        raise ProfileError(f"{path}: {fault}; mend the file, or remove it") from None


def write_profiles(environment: Mapping[str, str], profiles: Profiles) -> Path:
    """Replace the file at once; its user alone may read it."""
    path = profiles_path(environment)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        os.fchmod(out.fileno(), 0o600)
        out.write(profiles_text(profiles))
        out.flush()
        os.fsync(out.fileno())
    os.replace(fresh, path)
    return path


def parse_profiles(text: str) -> Profiles:
    """The profiles in a TOML text; ValueError names what is wrong in it."""
    import tomllib

    found = tomllib.loads(text)
    for key in found:
        if key not in ("use", "profile"):
            raise ValueError(f"unknown key {key}{nearest(key, ('use', 'profile'))}")
    tables, in_use = found.get("profile", {}), found.get("use")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError("profiles are tables, as [profile.NAME]")
    if in_use is not None and in_use not in tables:
        raise ValueError(f"use names {in_use!r}, which is not a profile")
    return Profiles({checked_name(name): _profile(name, table) for name, table in tables.items()}, in_use)


def _profile(name: str, table: Mapping[str, object]) -> Profile:
    texts: dict[str, str] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise ValueError(f"profile {name}: unknown key {key}{nearest(key, _KEYS)}")
        if not isinstance(value, str):
            raise ValueError(f"profile {name}: {key} is a text")
        texts[key] = value
    return Profile(**texts)


def checked_name(name: str) -> str:
    """The name, if a profile may have it."""
    if not _NAME.fullmatch(name):
        raise ProfileError(f"{name!r} cannot name a profile: use letters, digits, '.', '_' and '-'")
    return name


def profiles_text(profiles: Profiles) -> str:
    """TOML that `parse_profiles` reads."""
    lines = [] if profiles.in_use is None else [f"use = {json.dumps(profiles.in_use)}", ""]
    for name, profile in sorted(profiles.by_name.items()):
        lines.append(f"[profile.{json.dumps(name)}]")
        lines += [f"{key} = {json.dumps(value)}" for key in _KEYS if (value := getattr(profile, key))]
        lines.append("")
    return "\n".join(lines)
