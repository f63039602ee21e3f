"""`ottla streams`: runs and shows the topologies of Python files."""

from __future__ import annotations

import importlib
import logging
import runpy
import sys
from collections.abc import Sequence

from ottla.cli.command import BOOTSTRAP, Command, noun
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option
from ottla.streams.errors import ProcessingError, TopologyError
from ottla.streams.graph import Topology
from ottla.streams.naming import nearest
from ottla.streams.runner import run

_USUAL = "topology"


def command(arguments: Sequence[str]) -> int:
    try:
        return noun("streams", VERBS, arguments)
    except (ProcessingError, TopologyError) as fault:
        sys.stdout.flush()
        sys.stderr.write(f"ottla: {fault}\n")
        return 1


def found_topology(where: str) -> Topology:
    """The topology of `app.py`, `app.py:name` or `package.module:name`: a value, or a function that returns one."""
    source, _, name = where.partition(":")
    name = name or _USUAL
    try:
        if source.endswith(".py"):
            names = runpy.run_path(source, run_name=source.removesuffix(".py"))
        else:
            names = vars(importlib.import_module(source))
    except ModuleNotFoundError as fault:
        if fault.name is not None and (source == fault.name or source.startswith(fault.name + ".")):
            raise BadInput(f"there is no module {source}: name a file (app.py:{name}), or set PYTHONPATH") from None
        raise
    if name not in names:
        public = [one for one in names if not one.startswith("_")]
        raise BadInput(f"{source} has no {name}{nearest(name, public)}")
    found = names[name]() if callable(names[name]) else names[name]
    if not isinstance(found, Topology):
        raise BadInput(f"{where} is {type(found).__name__}, not a topology: take what StreamsBuilder.build() returns")
    return found


def _run(given: Given) -> int:
    topology = found_topology(given.words[0])
    application_id = given.text("application-id")
    if not application_id:
        raise Misuse("--application-id is missing: it names the consumer group and the application's own topics")
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    print(f"ottla streams: running {application_id}; Ctrl-C ends it", file=sys.stderr, flush=True)
    run(
        topology,
        application_id=application_id,
        bootstrap=given.text("bootstrap-server") or "localhost:9092",
        on_error=given.text("on-error"),
        dead_letter=given.text("dead-letter"),
    )
    return 0


def _graph(given: Given) -> int:
    print(found_topology(given.words[0]).describe(), end="")
    return 0


VERBS = {
    "run": Command(
        "ottla streams run APP.py[:NAME] --application-id ID",
        "Run a topology in this process, exactly once.\n\n"
        "NAME (by default `topology`) is a topology or a function that returns one; `package.module:NAME` is imported. "
        "Instances with one application id share the work. SIGTERM and Ctrl-C end it after the batch at work. A "
        "record that fails ends it with exit status 1, the node and the record's place, and the batch leaves nothing; "
        "--on-error skip leaves such records out, and --dead-letter TOPIC keeps them for `ottla redrive`.",
        _run,
        [
            BOOTSTRAP,
            Option("application-id", "The consumer group, and the beginning of its topics' names.", "ID"),
            Option(
                "on-error",
                "fail, skip or dead-letter; or by stage: deserialization=skip,processing=dead-letter,production=fail.",
                "CHOICE",
            ),
            Option("dead-letter", "A topic for records that fail; alone it means --on-error dead-letter.", "TOPIC"),
        ],
        words=(1, 1),
        has_json=False,
    ),
    "graph": Command(
        "ottla streams graph APP.py[:NAME]",
        "Print a topology as Kafka's Topology.describe() does.",
        _graph,
        words=(1, 1),
        has_json=False,
        connects=False,
    ),
}
