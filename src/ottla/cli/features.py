"""`ottla features`: the features of the cluster, and at which level each is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import Command, complain, connected, noun, pairs, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option

if TYPE_CHECKING:
    from ottla.client.admin.features import UpgradeType


def command(arguments: Sequence[str]) -> int:
    return noun("features", VERBS, arguments)


def _describe(given: Given) -> int:
    with connected(given) as admin:
        found = admin.describe_features(given.number("node-id"))
    if wants_json(given):
        print_json(
            [
                {"feature": each.name, "level": each.finalized, "least": each.least, "latest": each.latest}
                for each in found.features
            ]
        )
    elif not found.features:
        sys.stderr.write("the broker tells of no features\n")
    else:
        rows = [[each.name, each.finalized, each.least, each.latest] for each in found.features]
        print_table(["FEATURE", "LEVEL", "LEAST", "LATEST"], rows)
    return 0


def _upgrade(given: Given) -> int:
    from ottla.client.admin.features import UpgradeType

    return _change(given, UpgradeType.UPGRADE)


def _downgrade(given: Given) -> int:
    from ottla.client.admin.features import UpgradeType

    return _change(given, UpgradeType.UNSAFE_DOWNGRADE if "unsafe" in given else UpgradeType.SAFE_DOWNGRADE)


def _change(given: Given, kind: UpgradeType) -> int:
    levels = {}
    for name, text in pairs(given.words).items():
        if not text.isdecimal():
            raise Misuse(f"{text!r} is not a level; write {name}=1, for example")
        levels[name] = int(text)
    dry = "dry-run" in given
    with connected(given) as admin:
        outcome = admin.update_features(levels, kind, validate_only=dry)
    for name, fault in outcome.items():
        if fault is not None:
            complain(given, fault)
        elif not wants_json(given):
            sys.stdout.write(f"{name} {'can go' if dry else 'is now'} {'to' if dry else 'at'} level {levels[name]}\n")
    if wants_json(given):
        print_json({name: levels[name] for name, fault in outcome.items() if fault is None})
    return 1 if any(outcome.values()) else 0


_DRY_RUN = Option("dry-run", "Only see whether it can be done.")

VERBS = {
    "describe": Command(
        "ottla features describe",
        "Show every feature, its level, and the levels that there are.",
        _describe,
        [Option("node-id", "The broker to ask; default: any.", "ID", "Integer")],
    ),
    "upgrade": Command(
        "ottla features upgrade NAME=LEVEL... [--dry-run]",
        "Use features at higher levels.",
        _upgrade,
        [_DRY_RUN],
        words=(1, 100),
    ),
    "downgrade": Command(
        "ottla features downgrade NAME=LEVEL... [--unsafe] [--dry-run]",
        "Use features at lower levels.",
        _downgrade,
        [_DRY_RUN, Option("unsafe", "Also where what only the higher level can say is lost.")],
        words=(1, 100),
    ),
}
