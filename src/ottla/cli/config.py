"""`ottla config`: read and change configurations."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from ottla.cli.command import Command, connected, noun, pairs, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.option_values import check_names, unknown_option, with_plain_numbers
from ottla.cli.options import Given, Option
from ottla.client.admin.admin import ConfigOperation, ConfigSource, Resource, ResourceType

_KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}


def command(arguments: Sequence[str]) -> int:
    return noun("config", VERBS, arguments)


def _resource(given: Given) -> Resource:
    kind, name = given.words[:2]
    if kind not in _KINDS:
        raise Misuse(f"configurations belong to a topic, a broker, a group or client-metrics, not to a {kind!r}")
    if kind == "broker" and name != "default" and not name.isdecimal():
        raise Misuse(f"a broker is named by its number, or `default` for all: not {name!r}")
    return Resource(_KINDS[kind], "" if kind == "broker" and name == "default" else name)


def _get(given: Given) -> int:
    resource, keys = _resource(given), given.words[2:]
    with connected(given) as admin:
        found = admin.describe_configs([resource], keys=keys or None, documentation="doc" in given)[resource]
    if isinstance(found, Exception):
        raise found
    every = "all" in given or keys
    shown = [
        each
        for each in sorted(found, key=lambda each: each.name)
        if every or each.config_source not in (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
    ]
    missing = sorted(set(keys) - {each.name for each in found})
    if missing:
        raise unknown_option(given.words[0], missing[0])
    if wants_json(given):
        print_json(
            [
                {"name": each.name, "value": each.value, "source": ConfigSource(each.config_source).name}
                for each in shown
            ]
        )
    elif not shown:
        sys.stderr.write("nothing differs from the defaults; --all shows everything\n")
    else:
        rows = [[each.name, each.value, ConfigSource(each.config_source).name.lower()] for each in shown]
        titles = ["NAME", "VALUE", "SOURCE"]
        if "doc" in given:
            titles.append("ABOUT")
            rows = [[*row, each.documentation] for row, each in zip(rows, shown, strict=True)]
        print_table(titles, rows)
    return 0


def _change(given: Given, changes: Collection[tuple[str, ConfigOperation, str | None]]) -> int:
    resource = _resource(given)
    with connected(given) as admin:
        unset = [key for key, operation, _ in changes if operation is ConfigOperation.DELETE]
        check_names(admin, given.words[0], resource, unset)
        fault = admin.alter_configs({resource: changes})[resource]
    if fault is not None:
        raise fault
    if wants_json(given):
        done = {key: value for key, operation, value in changes if operation is ConfigOperation.SET}
        print_json({"kind": given.words[0], "name": given.words[1], "set": done, "unset": unset})
    else:
        sys.stdout.write(f"changed {given.words[0]} {given.words[1]}\n")
    return 0


def _set(given: Given) -> int:
    _resource(given)
    texts = with_plain_numbers(given.words[0], pairs(given.words[2:]))
    return _change(given, [(key, ConfigOperation.SET, value) for key, value in texts.items()])


def _unset(given: Given) -> int:
    return _change(given, [(key, ConfigOperation.DELETE, None) for key in given.words[2:]])


VERBS = {
    "get": Command(
        "ottla config get topic|broker|group|client-metrics NAME [KEY...] [--all]",
        "Show configurations that differ from the defaults, or all.",
        _get,
        [Option("all", "Defaults too.", short="a"), Option("doc", "Say what each is for.")],
        words=(2, 1000),
    ),
    "set": Command(
        "ottla config set topic|broker|group|client-metrics NAME KEY=VALUE...",
        "Change configurations, such as retention.ms=7d or segment.bytes=1GiB.",
        _set,
        words=(3, 1000),
    ),
    "unset": Command(
        "ottla config unset topic|broker|group|client-metrics NAME KEY...",
        "Take them back to their defaults.",
        _unset,
        words=(3, 1000),
    ),
}
