"""`ottla streams`: runs and shows the topologies of Python files."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Any

from ottla.cli.command import BOOTSTRAP, Command, Verb, noun
from ottla.cli.connect import read_properties
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.streams.errors import ProcessingError, TopologyError
from ottla.streams.named import application, found_topology, places
from ottla.streams.running import LOCAL, SPARK, run


def command(arguments: Sequence[str]) -> int:
    try:
        return noun("streams", VERBS, arguments)
    except (ProcessingError, TopologyError) as fault:
        sys.stdout.flush()
        sys.stderr.write(f"ottla: {fault}\n")
        return 1


def _run(given: Given) -> int:
    topology = found_topology(given.words[0])
    application_id = application(given)
    on = given.text("on") or LOCAL
    chosen = [option.name for option in ON_SPARK if option.name in given]
    if on != SPARK and chosen:
        raise Misuse(f"--{chosen[0]} is for --on spark")
    options: dict[str, Any] = _spark_options(given) if on == SPARK else {}
    if on != SPARK and "command-config" in given:
        raise Misuse("--command-config is for --on spark: a run in this process takes no properties of the client yet")
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # shows a traceback of each error that is told anyway
    where = f" on Spark, with its checkpoint in {places(given)[0]}" if on == SPARK else ""
    print(f"ottla streams: running {application_id}{where}; Ctrl-C ends it", file=sys.stderr, flush=True)
    bootstrap = given.text("bootstrap-server") or "localhost:9092"
    run(topology, application_id=application_id, bootstrap=bootstrap, on=on, **options)
    return 0


def _spark_options(given: Given) -> dict[str, Any]:
    options: dict[str, Any] = {name: given.text(name) for name in ("master", "checkpoint", "state") if name in given}
    options |= {name: given.text(name) for name in ("delivery", "lateness") if name in given}
    if "max-records" in given:
        options["max_records"] = given.number("max-records")
    if "every" in given:
        options["every_s"] = (given.duration_ms("every") or 0) / 1000
    if "available-now" in given:
        options["available_now"] = True
    if config := given.text("command-config"):
        options["kafka"] = read_properties(config)
    return options


def _graph(given: Given) -> int:
    print(found_topology(given.words[0]).describe(), end="")
    return 0


def _about_state(verb: str) -> Verb:
    """A verb whose modules need the state's libraries, imported when it is called."""

    def do(given: Given) -> int | None:
        made: Verb = getattr(importlib.import_module("ottla.streams.state_command"), verb)
        return made(given)

    return do


APPLICATION_ID = Option("application-id", "The consumer group, and the beginning of its topics' names.", "ID")
PLACES = (
    Option("checkpoint", "A place for Spark's checkpoint. Default: ottla-streams/ID in this directory.", "URL"),
    Option("state", "A place for the state files. Default: in the checkpoint.", "URL"),
)
ON_SPARK = (
    Option("master", "Where Spark runs. Default: SPARK_MASTER, or this machine.", "URL"),
    *PLACES,
    Option("delivery", "exactly-once, or at-least-once.", "WORD", choices=("exactly-once", "at-least-once")),
    Option("lateness", "exact; watermark: no record is late by its batch.", "WORD", choices=("exact", "watermark")),
    Option("max-records", "The most records of a batch. Default: 200000.", "N", kind="Integer"),
    Option("every", "The time between two batches. Default: none.", "DURATION", kind="Duration"),
    Option("available-now", "End at the present ends of the topics."),
)

VERBS = {
    "run": Command(
        "ottla streams run APP.py[:NAME] --application-id ID [--on spark]",
        "Run a topology in this process or on Spark, exactly once.\n\n"
        "NAME (by default `topology`) is a topology or a function that returns one; `package.module:NAME` is imported. "
        "Instances with one application id share the work. SIGTERM and Ctrl-C end it after the batch at work. A "
        "function that fails ends it with exit status 1, the node and the record's place; the batch leaves nothing.",
        _run,
        [
            BOOTSTRAP,
            APPLICATION_ID,
            Option("on", "local: in this process; spark.", "WHERE", default=LOCAL, choices=(LOCAL, SPARK)),
            *ON_SPARK,
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
    "status": Command(
        "ottla streams status --application-id ID [--checkpoint URL]",
        "Show rows of stores, stream time, dropped records and lag.\n\n"
        "A run on Spark is known by its state files, one in a process by the lag of its consumer group alone.",
        _about_state("status"),
        [APPLICATION_ID, *PLACES],
    ),
    "reset": Command(
        "ottla streams reset --application-id ID [--to WHERE] [--execute]",
        "Begin an application anew: its own topics, its state and its checkpoint go, and its offsets are set.\n\n"
        "Stop all instances first. Without --execute it is only shown. Results that were written stay.",
        _about_state("reset"),
        [
            APPLICATION_ID,
            Option(
                "to", "earliest, latest, an offset, or a time: -90m, 2026-01-31T12:00.", "WHERE", default="earliest"
            ),
            Option("input-topic", "Set the offsets of this topic alone; may be repeated.", "TOPIC"),
            *PLACES,
            Option("execute", "Do it."),
        ],
        has_json=False,
    ),
    "stop": Command(
        "ottla streams stop --application-id ID [--checkpoint URL]",
        "Ask an application on Spark to end.",
        _about_state("stop"),
        [APPLICATION_ID, *PLACES],
        has_json=False,
        connects=False,
    ),
    "upgrade": Command(
        "ottla streams upgrade APP.py[:NAME] --application-id ID [--checkpoint URL]",
        "Show whether the state of an application on Spark fits a changed topology; exit status 1 if not.",
        _about_state("upgrade"),
        [APPLICATION_ID, *PLACES],
        words=(1, 1),
        has_json=False,
    ),
}
