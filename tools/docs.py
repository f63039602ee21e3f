"""Makes the pages of docs/reference from what the code declares: `python tools/docs.py` writes them.

With `--check` nothing is written; the exit code is 1 where a committed page differs. Pages with measured results
(performance.md, compatibility.md) are not made here.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, Protocol

from ottla.config.option import Option, OptionStatus
from ottla.jobs.caller import Right

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
_MADE = "Made from the code by `python tools/docs.py`; changes belong there."
_HELP_WIDTH = "100"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page differs")
    check = parser.parse_args(arguments).check
    differing = 0
    for name, page in PAGES.items():
        path = REFERENCE / name
        wanted = page()
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if wanted == there:
            continue
        differing += 1
        if check:
            lines = unified_diff(there.splitlines(), wanted.splitlines(), f"committed {name}", "made now", lineterm="")
            sys.stderr.write("\n".join(list(lines)[:60]) + "\n")
        else:
            path.write_text(wanted, encoding="utf-8")
            sys.stderr.write(f"wrote {path.name}\n")
    if check and differing:
        sys.stderr.write(f"{differing} pages differ from the code: run `python tools/docs.py`\n")
    return 1 if check and differing else 0


def apis() -> str:
    """Every API that is served, with its versions."""
    from ottla.wire.apis import APIS

    rows = [
        (
            str(api.key),
            api.name,
            _versions(*api.served),
            _versions(*api.announced),
            "-" if api.flexible_since is None else str(api.flexible_since),
        )
        for api in APIS.values()
    ]
    return _page(
        "APIs and versions",
        "What `ApiVersions` announces is what Apache Kafka 4.3.1 announces for the same API; where other versions are "
        "served than announced, [ARCHITECTURE.md](../../ARCHITECTURE.md) says why. An API that is not in the table is "
        "not announced, and a request for it closes the connection.",
        "*Flexible from* is the first version with compact lengths and tagged fields. [rights.md](rights.md) lists the "
        "rights that each API takes.",
        *_table(("key", "API", "served", "announced", "flexible from"), rows),
    )


def rights() -> str:
    """The rights that each API takes, and the answer to those who lack them."""
    from ottla.connect.rest.app import ROUTES as connect
    from ottla.registry.routes import ROUTES as registry
    from ottla.wire.apis import APIS
    from ottla.wire.checks import Check, checks

    def row(key: int, check: Check) -> tuple[str, ...]:
        several = isinstance(check.operation, tuple)
        operations = "each of its operations" if several else "-" if check.operation is None else check.operation.name
        resource = "-" if check.resource is None else check.resource.name
        return (f"{APIS[key].name} {check.versions}", operations, resource, check.name, check.when, check.answer)

    return _page(
        "Rights",
        "Where an authorizer limits clients ([security](../guide/security.md)), each request is held against these "
        "rows, which are those of Apache Kafka 4.3.1. *READ*, *WRITE*, *DELETE* and *ALTER* allow *DESCRIBE*, "
        "*ALTER_CONFIGS* allows *DESCRIBE_CONFIGS*. The numbers are error codes: 29 topic, 30 group, 31 cluster and "
        "53 transactional id not authorized. Brokers of the cluster are not asked.",
        *_table(
            ("API and versions", "operation", "resource", "which", "when", "answer without it"),
            [row(key, check) for key, rows in checks().items() for check in rows],
        ),
        "## The schema registry",
        "Where a registry [asks its callers who they are](../guide/security.md#http), each call is held against these "
        "rows. The topic of a subject is its name without `-key` or `-value`, in every context; it need not exist. All "
        "rows of a call count. With 403 the error code is 40301.",
        *_over_http(registry),
        "## Connect's REST interface",
        "Likewise for a worker that asks its callers. The rows of topics and of other groups are about what a "
        "connector does with the login of its worker.",
        *_over_http(connect),
    )


def _over_http(routes: Mapping[str, Mapping[str, _Served]]) -> list[str]:
    """The rights of the calls of an interface over HTTP."""
    head = ("call", "operation", "resource", "which", "answer without it")
    rows: list[Sequence[str]] = []
    for path, methods in routes.items():
        for method, served in methods.items():
            call = f"`{method} /{path}`"
            rows += [
                (call, right.operation.name, right.resource.name, right.which, right.without) for right in served.rights
            ] or [(call, "-", "-", "-", "-")]
    return _table(head, rows)


class _Served(Protocol):
    @property
    def rights(self) -> tuple[Right[Any], ...]: ...


def configuration() -> str:
    """Every option of brokers, topics and groups, and what is done with it."""
    from ottla.config.group import GroupConfig
    from ottla.config.known import broker_options
    from ottla.config.topic import TopicConfig

    brokers = list(broker_options().values())
    broker_head = ("option", "default", "type", "changed", "what it does")
    topic_head = ("option", "default", "type", "default from", "what it does")
    honoured = [option for option in brokers if option.status is OptionStatus.HONOURED]
    refused = [option for option in (*brokers, *TopicConfig.OPTIONS) if option.status is OptionStatus.REFUSED]
    idle = [option for option in brokers if option.status is OptionStatus.NO_EFFECT]
    topics = [option for option in TopicConfig.OPTIONS if option.status is not OptionStatus.REFUSED]
    return _page(
        "Configuration",
        "Names, types and defaults are Apache Kafka's unless the text says so. "
        "[The guide](../guide/configuration.md) tells where options are set. *Changed* says whether an option can be "
        "changed while the broker runs: `per-broker` and `cluster-wide` ones can.",
        "## Topics",
        *_table(topic_head, [_topic_row(option) for option in _by_name(topics)]),
        "## Brokers",
        *_table(broker_head, [_broker_row(option) for option in _by_name(honoured)]),
        "## Refused",
        "Any value but the default is an error that names the option: to ignore it would break a promise.",
        *_table(("option", "default", "why"), [_short_row(option) for option in _by_name(refused)]),
        "## Groups",
        *_table(
            ("option", "default", "what it does"), [_short_row(option) for option in _by_name(GroupConfig.OPTIONS)]
        ),
        "## Without effect",
        "Known, so that a `server.properties` of Kafka's is read as it is; the broker names those that are set in a "
        "warning at start.",
        *_table(("option", "default", "why"), [_short_row(option) for option in _by_name(idle)]),
    )


def metrics() -> str:
    """Every metric family."""
    from ottla.broker import measures as of_broker
    from ottla.server import measures as of_process

    families = sorted([*of_broker.families(), *of_process.families()], key=lambda family: family.name)
    rows = [
        (f"`{family.name}`", family.kind, ", ".join(f"`{label}`" for label in family.labels) or "-", family.help)
        for family in families
    ]
    return _page(
        "Metrics",
        "What `http://127.0.0.1:9308/metrics` says, as Prometheus text. Names are those that the JMX exporter's rules "
        "for Kafka and kafka_exporter give, where there is such a metric; others begin with `ottla_`.",
        *_table(("metric", "type", "labels", "meaning"), rows),
    )


def commands() -> str:
    """The help of every command."""
    from ottla.cli.main import COMMANDS, KAFKA_TOOLS, overview

    parts = ["```", overview().rstrip(), "```"]
    for name in COMMANDS:
        parts += _help_of([name], f"## ottla {name}")
        for verb in _verbs(_help([name])):
            parts += _help_of([name, verb], f"### ottla {name} {verb}")
    parts += [
        "## Kafka's tools",
        "",
        "With the flags and the output of Apache Kafka 4.3; `ottla shims DIR` writes executables with these names.",
    ]
    for name in KAFKA_TOOLS:
        parts += _help_of([name], f"### {name}")
    return _page("Commands", "", "\n".join(parts))


def spark() -> str:
    """The options of `format("ottla")`."""
    from ottla.spark.reference import page

    return page()


def lake() -> str:
    """The options of a load, group by group."""
    from ottla.lake.options import OPTIONS

    parts = []
    for group in dict.fromkeys(option.group for option in OPTIONS):
        rows = []
        for option in (option for option in OPTIONS if option.group == group):
            takes = ", ".join(f"`{choice}`" for choice in option.choices) or option.kind.value
            default = "" if option.default in ("", None, ()) else f"`{option.default}`"
            rows.append((f"`{option.spelt}`", f"`{option.name}`", takes, default, option.kept.value, option.doc))
        head = ("option", "in Python", "takes", "default", "holds", "meaning")
        parts += [f"## {(group or 'topics and brokers').capitalize()}", *_table(head, rows)]
    return _page(
        "Options of a load",
        "Of `ottla lake load TOPIC... --to PLACE` and of [`ottla.lake.load`](python.md#ottlalake). "
        "[The guide](../guide/lake.md) tells how loads work; [the commands](commands.md#ottla-lake-load) list the "
        "options that concern Spark, too. A lake keeps options: *holds* says for how long.",
        *parts,
    )


def python() -> str:
    """The Python API, from signatures and docstrings."""
    import python_reference

    return python_reference.page(_MADE)


PAGES: dict[str, Callable[[], str]] = {
    "apis.md": apis,
    "commands.md": commands,
    "configuration.md": configuration,
    "lake.md": lake,
    "metrics.md": metrics,
    "python.md": python,
    "rights.md": rights,
    "spark.md": spark,
}


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", _MADE, *(part for part in parts if part)]) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return ["\n".join(lines)]


def _versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _by_name(options: Iterable[Option]) -> list[Option]:
    return sorted((option for option in options if not option.internal), key=lambda option: option.name)


def _default(option: Option) -> str:
    text = option.text(option.default)
    return "null" if text is None else f"`{text}`" if text else "empty"


def _short_row(option: Option) -> tuple[str, ...]:
    return f"`{option.name}`", _default(option), option.doc


def _broker_row(option: Option) -> tuple[str, ...]:
    return f"`{option.name}`", _default(option), option.kind.name.lower(), option.scope.value, option.doc


def _topic_row(option: Option) -> tuple[str, ...]:
    synonyms = ", ".join(f"`{synonym.name}`" for synonym in option.synonyms) or "-"
    doc = option.doc if option.status is OptionStatus.HONOURED else f"Accepted, without effect. {option.doc}"
    return f"`{option.name}`", _default(option), option.kind.name.lower(), synonyms, doc


def _help_of(command: list[str], heading: str) -> list[str]:
    return ["", heading, "", "```", _help(command).rstrip(), "```"]


def _help(command: list[str]) -> str:
    """The output of `--help`, on stdout or stderr, the same on every version of Python."""
    from ottla.cli.main import main as ottla

    written = io.StringIO()
    printed = contextlib.redirect_stdout(written), contextlib.redirect_stderr(written)
    with _steady_help(), printed[0], printed[1], contextlib.suppress(SystemExit):
        ottla([*command, "--help"])
    text = "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
    return _with_steady_usage(text, " ".join(["ottla", *command]))


_USAGE_PART = re.compile(r"\[(?:[^][]|\[[^]]*\])*\]|\([^)]*\)|--?\S+ [^-[(]\S*|\S+")
"""An optional part in brackets, a group, an option with its value, or a word."""


def _with_steady_usage(text: str, program: str) -> str:
    """Wrap the usage anew between its parts: argparse's versions differ in where they break a line."""
    usage, blank, rest = text.partition("\n\n")
    start = f"usage: {program} "
    if not usage.startswith(start) or "\n" not in usage:
        return text
    lines = [start.rstrip()]
    for part in _USAGE_PART.findall(" ".join(usage.removeprefix(start).split())):
        if len(lines[-1]) + 1 + len(part) > int(_HELP_WIDTH) - 2:
            lines.append(" " * (len(start) - 1))
        lines[-1] += f" {part}"
    return "\n".join(lines) + blank + rest


@contextlib.contextmanager
def _steady_help() -> Iterator[None]:
    """Make argparse's help the same everywhere: it wraps at the terminal's width, and differs between versions."""
    kept, form = dict(os.environ), argparse.HelpFormatter._format_action_invocation

    def once(self: argparse.HelpFormatter, action: argparse.Action) -> str:
        return re.sub(r"(-\w) (\S+), (--[\w-]+) \2$", r"\1, \3 \2", form(self, action))

    os.environ |= {"COLUMNS": _HELP_WIDTH, "NO_COLOR": "1"}
    argparse.HelpFormatter._format_action_invocation = once  # type: ignore[method-assign]
    try:
        yield
    finally:
        argparse.HelpFormatter._format_action_invocation = form  # type: ignore[method-assign]
        os.environ.clear()
        os.environ.update(kept)


def _verbs(text: str) -> list[str]:
    """The verbs listed in the help of a noun, in our form or in argparse's (`{load}`)."""
    if found := re.search(r"^verbs .*:\n((?:  \S.*\n?)+)", text, re.MULTILINE):
        return [line.split()[0] for line in found[1].splitlines()]
    if found := re.search(r"^positional arguments:\n  \{([\w,]+)\}", text, re.MULTILINE):
        return found[1].split(",")
    return []


if __name__ == "__main__":
    sys.exit(main())
