"""`ottla mirror`: mirrors clusters, by MirrorMaker 2's property file or by two addresses."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import Command, noun, pairs
from ottla.cli.faults import BadInput, Misuse, text_of
from ottla.cli.options import Given, Option
from ottla.config.profiles import bootstrap_servers
from ottla.config.properties import parse_properties

if TYPE_CHECKING:
    from ottla.mirror.options import Mirrors

_ALIAS = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {"topics": "topics", "groups": "groups", "topics-exclude": "topics.exclude"}
_HIGHEST_PORT = 65535


def command(arguments: Sequence[str]) -> int:
    return noun("mirror", VERBS, arguments)


def _start(given: Given) -> int:
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    logging.getLogger("ottla.mirror").setLevel(logging.INFO)
    if "metrics-port" in given and given.count("metrics-port") > _HIGHEST_PORT:
        raise Misuse(f"--metrics-port {given.text('metrics-port')} is not a port: ports are 0 to {_HIGHEST_PORT}")
    mirrors = _mirrors(given)
    return asyncio.run(_run(mirrors, given.count("metrics-port") if "metrics-port" in given else None))


def _check(given: Given) -> int:
    mirrors = _mirrors(given)
    from ottla.mirror.checking import check

    lines, wrong = asyncio.run(check(mirrors))
    print("\n".join(lines))
    return int(wrong > 0)


def _mirrors(given: Given) -> Mirrors:
    from ottla.connect.errors import ConfigException
    from ottla.mirror.options import mirrors_of

    try:
        mirrors = mirrors_of(_properties(given))
    except ConfigException as fault:
        raise BadInput(str(fault)) from None
    if mirrors.without_effect:
        print(f"ottla mirror: without effect here: {', '.join(mirrors.without_effect)}", file=sys.stderr)
    return mirrors


def _properties(given: Given) -> dict[str, str]:
    short = sorted({"from", "to", *_SHORT, "same-names", "sync-groups"} & given.values.keys())
    if given.words:
        if short:
            raise Misuse(f"--{short[0]} goes without a file, which says that itself")
        return {**parse_properties(text_of(given.words[0])), **pairs(given.all("set"))}
    for side in ("from", "to"):
        if side not in given:
            raise Misuse(f"name a property file, or give --from and --to: --{side} is missing")
    source, target = _cluster(given, "from"), _cluster(given, "to")
    flow = f"{source[0]}->{target[0]}"
    found = {
        "clusters": f"{source[0]}, {target[0]}",
        f"{source[0]}.bootstrap.servers": source[1],
        f"{target[0]}.bootstrap.servers": target[1],
        f"{flow}.enabled": "true",
    }
    found |= {f"{flow}.{name}": given.need(option) for option, name in _SHORT.items() if option in given}
    if "same-names" in given:
        found["replication.policy.class"] = "IdentityReplicationPolicy"
    if "sync-groups" in given:
        found["sync.group.offsets.enabled"] = "true"
    return found | pairs(given.all("set"))


def _cluster(given: Given, side: str) -> tuple[str, str]:
    """The alias and the addresses of a cluster: `NAME=HOST:PORT`, or the name of a profile."""
    text = given.need(side)
    alias, equals, address = text.partition("=")
    if not _ALIAS.fullmatch(alias):
        raise Misuse(f"--{side} {text}: give the cluster a name, as in us=HOST:PORT; its mirrors are called us.TOPIC")
    return alias, address if equals else bootstrap_servers(os.environ, alias).address


async def _run(mirrors: Mirrors, metrics_port: int | None) -> int:
    from ottla.mirror.running import Mirroring

    mirroring = Mirroring(mirrors)
    asked: list[int] = []

    def stop(number: int) -> None:
        if asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        asked.append(number)
        print("ottla mirror: stopping; what is under way lands first", file=sys.stderr, flush=True)
        mirroring.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    names = ", ".join(flow.name for flow in mirroring.flows)
    if metrics_port is None:
        print(f"ottla mirror: {names}; Ctrl-C ends it", file=sys.stderr, flush=True)
        return await mirroring.run()
    async with mirroring.exported(metrics_port) as port:
        print(f"ottla mirror: {names}; metrics at http://127.0.0.1:{port}/metrics; Ctrl-C ends it", file=sys.stderr,
              flush=True)  # fmt: skip
        return await mirroring.run()


_WHERE: tuple[Option, ...] = (
    Option("from", "Instead of a file: the source, by a name with its addresses, or by a profile.", "NAME=HOST:PORT"),
    Option("to", "The target, likewise.", "NAME=HOST:PORT"),
    Option("topics", "Patterns of topics, commas between. Default: all but internal ones.", "PATTERNS"),
    Option("topics-exclude", "Patterns of topics that are left out.", "PATTERNS"),
    Option("groups", "Patterns of groups whose offsets are translated. Default: all.", "PATTERNS"),
    Option("same-names", "Topics keep their names (IdentityReplicationPolicy)."),
    Option("sync-groups", "Commit translated offsets for groups without members at the target."),
    Option("set", "An option of MirrorMaker 2's file; may be given again.", "KEY=VALUE"),
)
VERBS: Mapping[str, Command] = {
    "start": Command(
        "ottla mirror start [mm2.properties]",
        "Mirror clusters in this process, as Kafka's connect-mirror-maker does.\n\n"
        "The file is MirrorMaker 2's, unchanged: clusters, their addresses, flows. Batches are copied as they are "
        "compressed, each exactly once; topics are made with their partitions and configurations; offsets of groups "
        "are translated to the very record. A flow that fails for a reason that may pass is begun again; a partition "
        "that cannot be mirrored on stops alone and says why. The exit status is 1 where a flow has failed for good.",
        _start,
        [*_WHERE, Option("metrics-port", "Serve metrics for Prometheus on 127.0.0.1:N/metrics; 0: a free port.", "N",
                         "Integer")],
        words=(0, 1),
        has_json=False,
        connects=False,
    ),
    "check": Command(
        "ottla mirror check [mm2.properties]",
        "Read the file, ask all clusters, and show what would be mirrored where; nothing is changed.\n\n"
        "It finds wrong names, clusters that do not answer, a cluster under two names, factors that are too high, and "
        "topics that would go round. The exit status is 1 where something is wrong.",
        _check,
        _WHERE,
        words=(0, 1),
        has_json=False,
        connects=False,
    ),
}  # fmt: skip
