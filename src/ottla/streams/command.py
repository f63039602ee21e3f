"""`ottla streams`: runs and shows the topologies of Python files."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any

from ottla.cli.command import BOOTSTRAP, Command, Verb, counted, noun, print_json, print_table, wants_json
from ottla.cli.connect import read_properties
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.kernel.quantities import moment_text
from ottla.streams.connection import connection
from ottla.streams.difference import difference
from ottla.streams.errors import ProcessingError, TopologyError
from ottla.streams.graph import Topology
from ottla.streams.kept import StateReader, asked, state_reader
from ottla.streams.named import application, found_topology, places
from ottla.streams.picture import svg
from ottla.streams.running import LOCAL, SPARK, run
from ottla.streams.served import MANY as ASKED
from ottla.streams.served import query_of, remote
from ottla.streams.stores.disk import DISK, MEMORY


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
    options = _spark_options(given) if on == SPARK else {}
    options |= {"query_port": given.number("query-port"), "query_host": given.need("query-host")}
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # shows a traceback of each error that is told anyway
    where = f" on Spark, with its checkpoint in {places(given)[0]}" if on == SPARK else ""
    print(f"ottla streams: running {application_id}{where}; Ctrl-C ends it", file=sys.stderr, flush=True)
    bootstrap = given.text("bootstrap-server") or "localhost:9092"
    options |= {"kafka": _kafka(given), "stores": given.need("stores")}
    options |= {"on_error": given.text("on-error"), "dead_letter": given.text("dead-letter")}
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
    return options


def _kafka(given: Given) -> dict[str, str]:
    """Properties of the client."""
    config = given.text("command-config")
    return read_properties(config) if config else {}


def _query(given: Given) -> int:
    asked_for = {name: text for name in ASKED if (text := given.text(name)) is not None}
    url, application_id = given.text("url"), given.text("application-id")
    words = list(given.words)
    if (url is None) == (application_id is None):
        raise Misuse("give --application-id, to read the application's changelog, or --url of a running instance")
    if len(words) > 2:
        asked_for["key"] = words[2]
    if url is not None:
        shown = remote(url, words[1], asked_for)
    else:
        assert application_id is not None
        shown = asked(
            found_topology(words[0]), words[1], lambda store: query_of(store, asked_for),
            application_id=application_id, where=connection(given.need("bootstrap-server"), _kafka(given)),
            read_state=_state_reader(given),
        ).plain()  # fmt: skip
    if wants_json(given):
        print_json(shown)
        return 0
    _show_rows(shown)
    return 0


def _state_reader(given: Given) -> StateReader | None:
    if "checkpoint" not in given and "state" not in given:
        return None
    return state_reader(application(given), given.text("checkpoint"), given.text("state"))


def _show_rows(shown: dict[str, Any]) -> None:
    windowed = any("window" in row for row in shown["rows"])
    rows = [
        [_text(row["key"]), *([moment_text(row["window"][at]) for at in ("start", "end")] if windowed else []),
         _text(row["value"]), moment_text(row["timestamp"])]
        for row in shown["rows"]
    ]  # fmt: skip
    print_table(["KEY", *(["START", "END"] if windowed else []), "VALUE", "TIME"], rows)
    notes = ["more rows than --limit"] if shown["more"] else []
    if len(shown["partitions"]) < shown["of"]:
        notes.append(f"partitions {', '.join(map(str, shown['partitions']))} of {shown['of']}: others have the rest")
    notes.append(f"{counted(shown['age']['lag'], 'record')} of the input not processed yet")
    print(f"{counted(len(rows), 'row')}; {'; '.join(notes)}", file=sys.stderr)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _graph(given: Given) -> int:
    topology = found_topology(given.words[0])
    older, picture = given.text("compare"), given.text("svg")
    if older is not None and picture is not None:
        raise Misuse("give --compare or --svg, not both")
    if older is not None:
        return _compared(found_topology(older), topology)
    if picture is not None:
        with open(picture, "w", encoding="utf-8") as file:
            file.write(svg(topology))
        print(f"wrote {picture}")
        return 0
    print(topology.describe(), end="")
    return 0


def _compared(older: Topology, newer: Topology) -> int:
    found = difference(older, newer)
    for sentence in found.breaking:
        print(f"breaks: {sentence}")
    for sentence in found.harmless:
        print(f"fine:   {sentence}")
    if found.needs_new_application_id:
        print("this change needs a new application id, or a reset of the application")
        return 1
    print("this change fits the state of the older version" if found.harmless else "the state of both is the same")
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
        "record that fails ends it with exit status 1, the node and the record's place, and the batch leaves nothing; "
        "--on-error skip leaves such records out, and --dead-letter TOPIC keeps them for `ottla redrive`.",
        _run,
        [
            BOOTSTRAP,
            APPLICATION_ID,
            Option("on", "local: in this process; spark.", "WHERE", default=LOCAL, choices=(LOCAL, SPARK)),
            *ON_SPARK,
            Option(
                "stores",
                "memory; disk: state may be larger than memory, at a third of the rate.",
                "WHERE",
                default=MEMORY,
                choices=(MEMORY, DISK),
            ),
            Option(
                "on-error",
                "fail, skip or dead-letter; or by stage: deserialization=skip,processing=dead-letter,production=fail.",
                "CHOICE",
            ),
            Option("dead-letter", "A topic for records that fail; alone it means --on-error dead-letter.", "TOPIC"),
            Option(
                "query-port",
                "Serve stores and /metrics over HTTP; on Spark no stores. 0: a free port.",
                "PORT",
                kind="Integer",
            ),
            Option("query-host", "The address to answer queries at.", "HOST", default="127.0.0.1"),
        ],
        words=(1, 1),
        has_json=False,
    ),
    "query": Command(
        "ottla streams query APP.py[:NAME] STORE [KEY] --application-id ID",
        "Show rows of a store: those of KEY, of a range, of a prefix, of windows, or all.\n\n"
        "The rows come from the store's changelog, as the application has committed them, whether it runs or not; with "
        "--url from a running instance (`ottla streams run --query-port`), which has the rows of its own partitions "
        "alone; with --checkpoint or --state from the state files of a run on Spark. A line on stderr says how many "
        "records of the input the application had not processed. KEY, --first and --last are text or JSON, as the "
        "store's serde wants.",
        _query,
        [
            BOOTSTRAP,
            Option("application-id", "The application whose changelog is read.", "ID"),
            Option("url", "A running instance to ask instead, such as http://127.0.0.1:8090.", "URL"),
            Option("first", "The first key of a range; included.", "KEY"),
            Option("last", "The last key of a range; included.", "KEY"),
            Option("prefix", "The beginning of keys of text or bytes.", "TEXT"),
            Option("since", "Windows that begin, or sessions that end, then or later; a time or milliseconds.", "TIME"),
            Option("until", "Windows and sessions that begin then or earlier.", "TIME"),
            Option("limit", "The most rows to show.", "N", kind="Integer", default="1000"),
            *PLACES,
        ],
        words=(2, 3),
    ),
    "graph": Command(
        "ottla streams graph [--svg FILE | --compare OLDER.py] APP.py[:NAME]",
        "Print a topology as Kafka's Topology.describe() does, draw it, or compare it with an older version.\n\n"
        "--compare says which changes fit the state and the topics of the older version, and which do not: then the "
        "exit status is 1.",
        _graph,
        [
            Option("svg", "Draw the topology into a file.", "FILE"),
            Option("compare", "The older version, as APP.py[:NAME].", "OLDER.py"),
        ],
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
