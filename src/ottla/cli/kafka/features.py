"""`kafka-features`: the features of a cluster and their levels; upgrade, downgrade, disable.

Kafka's tool maps a release to the levels of all its features. Here the features that ottla has are mapped, and the line
of metadata.version names the release.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse
from ottla.cli.kafka import releases
from ottla.cli.kafka.java_errors import told
from ottla.cli.kafka.subcommands import choose, listed
from ottla.cli.options import Given, Option, Parser

if TYPE_CHECKING:
    from ottla.client.admin.features import UpgradeType
    from ottla.client.blocking.admin import Admin

_INT16 = 1 << 15

_COMMON = Parser(
    "This tool manages feature flags in Kafka.",
    [
        Option("bootstrap-server", "Brokers to connect to.", "BOOTSTRAP_SERVER"),
        Option("bootstrap-controller", "Not for this cluster: brokers are their own controllers.", "HOST"),
        Option("command-config", "Property file with client options.", "COMMAND_CONFIG"),
    ],
)
_FEATURE = Option("feature", "A feature, as NAME=LEVEL; may be repeated.", "FEATURE")
_METADATA = Option("metadata", "Deprecated: the level of metadata.version, as 3.3-IV3.", "METADATA")
_RELEASE = Option(
    "release-version",
    f"The levels that {' and '.join(releases.FEATURES)} have in this release, as 4.0 or 4.0-IV3.",
    "RELEASE",
)
_DRY_RUN = Option("dry-run", "Only see whether it can be done.")
_UNSAFE = Option("unsafe", "Go down even if what only the higher level can say is lost.")
_PARSERS = {
    "describe": Parser(
        "Describes the current active feature flags.",
        [Option("node-id", "The broker to ask.", "NODE_ID", "Integer")],
    ),
    "upgrade": Parser("Upgrade one or more feature flags.", [_METADATA, _RELEASE, _FEATURE, _DRY_RUN]),
    "downgrade": Parser("Downgrade one or more feature flags.", [_METADATA, _RELEASE, _FEATURE, _UNSAFE, _DRY_RUN]),
    "disable": Parser("Bring features to level 0.", [_FEATURE, _UNSAFE, _DRY_RUN]),
    "version-mapping": Parser(
        "Show the levels of this cluster's features in a release of Apache Kafka.",
        [Option("release-version", "A release from 3.3-IV3 on.", "RELEASE", default=releases.LATEST_STABLE)],
    ),
    "feature-dependencies": Parser("Show which features a level of a feature depends on.", [_FEATURE]),
}


def command(arguments: Sequence[str]) -> int:
    try:
        chosen = choose(_COMMON, _PARSERS, arguments or ["--help"])
        for given in (chosen.before, chosen.behind):
            if "help" in given:
                abouts = {name: parser.about for name, parser in _PARSERS.items()}
                commands = f"\n{listed(abouts)}\n" if given.parser is _COMMON else ""
                sys.stdout.write(f"{given.parser.about}\n{commands}{given.parser.table()}")
                return 0
        if chosen.name in _OFFLINE:
            return _OFFLINE[chosen.name](chosen.behind)
        if "bootstrap-controller" in chosen.before:
            raise Misuse("--bootstrap-controller is not supported: ask a broker by --bootstrap-server")
        server = chosen.before.text("bootstrap-server")
        if server is None:
            raise Misuse("You must specify either --bootstrap-controller or --bootstrap-server.")
        run = _COMMANDS[chosen.name]
        with admin_from(server, chosen.before.text("command-config")) as admin:
            return run(admin, chosen.behind)
    except Misuse as fault:
        sys.stdout.flush()
        sys.stderr.write(f"Command line error: {fault}. Type --help for help.\n")
        return 1


def _describe(admin: Admin, given: Given) -> int:
    node = given.number("node-id")
    if node is not None and node < 0:
        sys.stderr.write(f"Invalid node id {node}: must be non-negative.\n")
        return 1
    found = admin.describe_features(node)
    for each in found.features:
        levels = [releases.shown(each.name, level) for level in (each.least, each.latest, each.finalized)]
        epoch = str(found.epoch) if found.epoch >= 0 else "-"
        sys.stdout.write(
            f"Feature: {each.name:<40}  SupportedMinVersion: {levels[0]:<15}  SupportedMaxVersion: {levels[1]:<15}  "
            f"FinalizedVersionLevel: {levels[2]:<15}  Epoch: {epoch}\n"
        )
    return 0


def _upgrade(admin: Admin, given: Given) -> int:
    from ottla.client.admin.features import UpgradeType

    return _change(admin, given, "upgrade", UpgradeType.UPGRADE)


def _downgrade(admin: Admin, given: Given) -> int:
    return _change(admin, given, "downgrade", _downwards(given))


def _disable(admin: Admin, given: Given) -> int:
    levels: dict[str, int] = {}
    for name in given.all("feature"):
        if not _put(levels, name, 0):
            return 1
    return _update(admin, given, "disable", levels, _downwards(given))


def _downwards(given: Given) -> UpgradeType:
    from ottla.client.admin.features import UpgradeType

    return UpgradeType.UNSAFE_DOWNGRADE if "unsafe" in given else UpgradeType.SAFE_DOWNGRADE


def _change(admin: Admin, given: Given, verb: str, kind: UpgradeType) -> int:
    if (version := given.text("release-version")) is not None:
        return _change_to_release(admin, given, verb, kind, version)
    levels: dict[str, int] = {}
    if (release := given.text("metadata")) is not None:
        sys.stdout.write(" `metadata` flag is deprecated and may be removed in a future release.\n")
        named = releases.named(release)
        if named is None:
            return _unknown_release(release)
        levels[releases.METADATA_VERSION] = releases.metadata_level(named)
    for text in given.all("feature"):
        if (parsed := _parsed(text)) is None:
            return 1
        name, level = parsed
        if problem := _why_no_level(verb, level):
            sys.stderr.write(f"{problem}\n")
            return 1
        if not _put(levels, name, level):
            return 1
    return _update(admin, given, verb, levels, kind)


def _change_to_release(admin: Admin, given: Given, verb: str, kind: UpgradeType, version: str) -> int:
    if "metadata" in given or "feature" in given:
        sys.stderr.write("Can not specify `release-version` with other feature flags.\n")
        return 1
    release = releases.named(version)
    if release is None:
        return _unknown_release(version)
    levels = {name: releases.level_in(release, name) for name in releases.FEATURES}
    if verb == "upgrade":  # to level 0 nothing can be upgraded: Kafka's tool leaves such features out, too
        levels = {name: level for name, level in levels.items() if level > 0}
    if not levels:
        sys.stdout.write(f"Nothing to upgrade: {' and '.join(releases.FEATURES)} have no level above 0 in {version}.\n")
        return 0
    return _update(admin, given, verb, levels, kind)


def _unknown_release(text: str) -> int:
    supported = ", ".join(releases.NAMES)
    sys.stderr.write(f"Unknown metadata.version '{text}'. Supported metadata.version are: {supported}\n")
    return 1


def _parsed(text: str) -> tuple[str, int] | None:
    """Name and level of NAME=LEVEL; None where the text is something else, which is said."""
    name, equals, level = text.partition("=")
    if not equals:
        problem = "equals sign not found."
    elif not _is_level(level.strip()):
        problem = f"unable to parse {level.strip()} as a short."
    else:
        return name.strip(), int(level)
    sys.stderr.write(f"Can't parse feature=level string {text}: {problem}\n")
    return None


def _is_level(text: str) -> bool:
    try:
        return -_INT16 <= int(text) < _INT16
    except ValueError:
        return False


def _why_no_level(verb: str, level: int) -> str | None:
    if level == 0 and verb == "upgrade":
        return (
            "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided "
            "maxVersionLevel:0 is < 1."
        )
    return "Cannot specify a negative version level." if level < 0 else None


def _put(levels: dict[str, int], name: str, level: int) -> bool:
    if name in levels:
        sys.stderr.write(f"Feature {name} was specified more than once.\n")
        return False
    levels[name] = level
    return True


def _update(admin: Admin, given: Given, verb: str, levels: dict[str, int], kind: UpgradeType) -> int:
    if not levels:
        sys.stderr.write(f"You must specify at least one feature to {verb}\n")
        return 1
    dry = "dry-run" in given
    outcome = admin.update_features(levels, kind, validate_only=dry)
    failed = 0
    for name in sorted(levels):
        fault = outcome[name]
        if fault is None:
            done = "disabled." if verb == "disable" else f"{verb}d to {levels[name]}."
            sys.stdout.write(f"{name} {'can be' if dry else 'was'} {done}\n")
        else:
            failed += 1
            wish = f"disable {name}" if verb == "disable" else f"{verb} {name} to {levels[name]}"
            sys.stdout.write(f"{'Can not' if dry else 'Could not'} {wish}. {told(fault)}\n")
    if failed:
        sys.stdout.flush()
        sys.stderr.write(f"{failed} out of {len(levels)} operation(s) failed.\n")
    return 1 if failed else 0


_COMMANDS: dict[str, Callable[[Admin, Given], int]] = {
    "describe": _describe,
    "upgrade": _upgrade,
    "downgrade": _downgrade,
    "disable": _disable,
}


def _version_mapping(given: Given) -> int:
    version = given.need("release-version")
    release = releases.named(version)
    if release is None:
        return _unknown_release(version)
    sys.stdout.write(f"{releases.METADATA_VERSION}={releases.metadata_level(release)} ({version})\n")
    sys.stdout.write("".join(f"{name}={releases.level_in(release, name)}\n" for name in releases.FEATURES))
    return 0


def _feature_dependencies(given: Given) -> int:
    """No level of a feature that ottla has depends on another feature."""
    if "feature" not in given:
        raise Misuse("argument --feature is required")
    for text in given.all("feature"):
        if (parsed := _parsed(text)) is None:
            return 1
        name, level = parsed
        problem = releases.why_unknown(name, level)
        if problem is not None:
            sys.stdout.flush()
            sys.stderr.write(f"{problem}\n")
            return 1
        release = f" ({releases.shown(name, level)})" if name == releases.METADATA_VERSION else ""
        sys.stdout.write(f"{name}={level}{release} has no dependencies.\n")
    return 0


_OFFLINE: dict[str, Callable[[Given], int]] = {
    "version-mapping": _version_mapping,
    "feature-dependencies": _feature_dependencies,
}
