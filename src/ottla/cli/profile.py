"""`ottla profile`: names for clusters and registries, so that commands need no addresses."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ottla.cli.command import Command, noun, print_json, print_table, registry_address, wants_json
from ottla.cli.connect import read_properties
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.config.profiles import (
    ChosenAddress,
    Profile,
    ProfileError,
    Profiles,
    bootstrap_servers,
    checked_name,
    profiles_path,
    read_profiles,
    registry_url,
    write_profiles,
)


def command(arguments: Sequence[str]) -> int:
    return noun("profile", VERBS, arguments)


def _add(given: Given) -> int:
    from ottla.client.core.plan import parse_bootstrap

    name = checked_name(given.words[0])
    profiles = read_profiles(os.environ)
    if name in profiles.by_name and "replace" not in given:
        raise Misuse(f"there is a profile {name} already: --replace changes it")
    servers = given.text("bootstrap-server") or ""
    registry = registry_address(given.need("registry"), "--registry") if "registry" in given else ""
    config = os.path.abspath(given.need("command-config")) if "command-config" in given else ""
    if config:
        servers = servers or read_properties(config).get("bootstrap.servers", "")
    if not servers and not registry:
        raise Misuse("a profile has an address: give -b HOST:PORT, --registry URL or both")
    if servers:
        parse_bootstrap(servers)
    old = profiles.by_name.get(name, Profile())
    new = Profile(servers or old.bootstrap_servers, registry or old.registry, config or old.command_config)
    used = name if "use" in given else profiles.in_use
    _write(Profiles({**profiles.by_name, name: new}, used))
    if wants_json(given):
        print_json(_row(name, new, used))
    else:
        then = "commands use it now" if used == name else f"`ottla profile use {name}` makes commands use it"
        sys.stdout.write(f"profile {name}: {_told(new)}; {then}\n")
    return 0


def _use(given: Given) -> int:
    profiles = read_profiles(os.environ)
    if ("none" in given) == bool(given.words):
        raise Misuse("give the NAME of a profile, or --none")
    name = given.words[0] if given.words else None
    about = "commands use no profile now" if name is None else f"commands use {name} now: {_told(profiles.find(name))}"
    _write(replace(profiles, in_use=name))
    if wants_json(given):
        print_json({"in_use": name})
    else:
        sys.stdout.write(about + "\n")
    return 0


def _list(given: Given) -> int:
    profiles = read_profiles(os.environ)
    rows = [_row(name, profile, profiles.in_use) for name, profile in sorted(profiles.by_name.items())]
    if wants_json(given):
        print_json(rows)
    elif not rows:
        sys.stderr.write("there are no profiles; `ottla profile add NAME -b HOST:PORT` makes one\n")
    else:
        titles = ["NAME", "BOOTSTRAP SERVERS", "REGISTRY", "COMMAND CONFIG", "IN USE"]
        print_table(titles, [[*list(row.values())[:4], "yes" if row["in_use"] else None] for row in rows])
    return 0


def _show(given: Given) -> int:
    """The addresses that a command would use here and now, each with who says so."""
    named = given.words[0] if given.words else None
    if named is not None:
        profiles = read_profiles(os.environ)
        row = _row(named, profiles.find(named), profiles.in_use)
        if wants_json(given):
            print_json(row)
        else:
            sys.stdout.write(f"profile {named}: {_told(profiles.find(named))}\n")
        return 0
    chosen = {"bootstrap_servers": _try(bootstrap_servers), "registry": _try(registry_url)}
    if wants_json(given):
        print_json({key: {"address": each.address or None, "origin": each.origin} for key, each in chosen.items()})
    else:
        rows = [[key.replace("_", " "), each.address or None, each.origin] for key, each in chosen.items()]
        print_table(["", "ADDRESS", "FROM"], rows)
        sys.stdout.write(f"profiles are in {profiles_path(os.environ)}\n")
    return 0


def _try(choose: Callable[[Mapping[str, str]], ChosenAddress]) -> ChosenAddress:
    """The address, or none with the reason: the other one is shown all the same."""
    try:
        return choose(os.environ)
    except ProfileError as fault:
        return ChosenAddress("", str(fault))


def _remove(given: Given) -> int:
    profiles = read_profiles(os.environ)
    for name in given.words:
        profiles.find(name)
    left = {name: profile for name, profile in profiles.by_name.items() if name not in given.words}
    _write(Profiles(left, None if profiles.in_use in given.words else profiles.in_use))
    if wants_json(given):
        print_json(given.words)
    else:
        sys.stdout.write("".join(f"removed profile {name}\n" for name in given.words))
        if profiles.in_use in given.words:
            sys.stderr.write("it was in use: commands use no profile now\n")
    return 0


def _write(profiles: Profiles) -> None:
    write_profiles(os.environ, profiles)


def _told(profile: Profile) -> str:
    parts = [
        ("brokers", profile.bootstrap_servers),
        ("registry", profile.registry),
        ("options of clients", profile.command_config),
    ]
    return ", ".join(f"{what} {address}" for what, address in parts if address)


def _row(name: str, profile: Profile, in_use: str | None) -> dict[str, object]:
    return {
        "name": name,
        "bootstrap_servers": profile.bootstrap_servers or None,
        "registry": profile.registry or None,
        "command_config": profile.command_config or None,
        "in_use": name == in_use,
    }


VERBS = {
    "add": Command(
        "ottla profile add NAME [-b HOST:PORT] [--registry URL] [--command-config FILE] [--use]",
        "Give addresses a name.",
        _add,
        [
            Option("bootstrap-server", "Brokers of the cluster.", "HOST:PORT", short="b"),
            Option("registry", "The cluster's schema registry.", "URL"),
            Option("command-config", "Property file with client options, which may name the brokers too.", "FILE"),
            Option("use", "Have commands use it from now on."),
            Option("replace", "Change a profile that there is; an address that is not given stays."),
        ],
        words=(1, 1),
        connects=False,
    ),
    "use": Command(
        "ottla profile use NAME | --none",
        "Have commands use a profile from now on.",
        _use,
        [Option("none", "Have commands use no profile.")],
        words=(0, 1),
        connects=False,
    ),
    "list": Command("ottla profile list", "List profiles.", _list, connects=False),
    "show": Command(
        "ottla profile show [NAME]",
        "Show a profile; without a name, the addresses that commands use here, and who says so.",
        _show,
        words=(0, 1),
        connects=False,
    ),
    "remove": Command("ottla profile remove NAME...", "Forget profiles.", _remove, words=(1, 1000), connects=False),
}
