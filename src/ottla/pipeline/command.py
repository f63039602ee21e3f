"""`ottla pipeline`: checks, plans, runs and draws a pipeline that one file declares."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.command import Command, noun, print_json, wants_json
from ottla.cli.connect import admin as admin_of
from ottla.cli.connect import read_properties
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option
from ottla.kernel.terminal import colours

if TYPE_CHECKING:
    from ottla.pipeline.check import Flows
    from ottla.pipeline.drawing import LiveNotes
    from ottla.pipeline.parts import Pipeline

_RATE_S = 1.0
_COLOURS = ("36", "32", "33", "35", "34", "96", "92", "93")


def command(arguments: Sequence[str]) -> int:
    try:
        import yaml  # noqa: F401
    except ImportError:
        sys.stderr.write("ottla: pipeline files need PyYAML: pip install 'ottla[pipeline]'\n")
        return 1
    return noun("pipeline", VERBS, arguments)


def _read(given: Given) -> tuple[Pipeline, Flows, list[Any]]:
    from ottla.pipeline.reading import read_pipeline

    return read_pipeline(Path(given.words[0]), [*map(Path, given.all("overlay"))])


def _valid(given: Given) -> tuple[Pipeline, Flows]:
    """The pipeline; BadInput with all findings where any is no warning."""
    from ottla.pipeline.reading import valid_pipeline

    pipeline, flows, warnings = valid_pipeline(Path(given.words[0]), [*map(Path, given.all("overlay"))])
    for each in warnings:
        sys.stderr.write(f"{each}\n")
    return pipeline, flows


def _check(given: Given) -> int:
    pipeline, _, findings = _read(given)
    wrong = [each for each in findings if not each.warning]
    if wants_json(given):
        print_json(
            [{"file": each.spot.file, "line": each.spot.line, "column": each.spot.column, "text": each.sentence,
              "warning": each.warning} for each in findings]
        )  # fmt: skip
        return int(bool(wrong))
    sys.stdout.write("".join(f"{each}\n" for each in findings))
    if not wrong:
        counts = [f"{len(parts)} {section}" for section in _SECTIONS if (parts := pipeline.of(section))]
        sys.stdout.write(f"{pipeline.name}: {', '.join(counts) or 'nothing'}; nothing is wrong\n")
    return int(bool(wrong))


def _plan(given: Given) -> int:
    from ottla.client.registry_client import RegistryClient, registry_urls
    from ottla.pipeline.apply import Memory, planned
    from ottla.pipeline.plan import Seen, plan

    pipeline, _ = _valid(given)
    cluster, memory = pipeline.cluster, Memory(_state(given, pipeline))
    status = _running(given, pipeline)
    bootstrap = str(cluster["bootstrap"] or status.get("bootstrap", ""))
    if bootstrap:
        url = str(cluster["registry"] or status.get("registry", ""))
        registry = RegistryClient(registry_urls(url)) if url else None
        connect = str(cluster["connect"] or status.get("connect", "")) or None
        with admin_of(bootstrap, _client(pipeline)) as admin:
            found = planned(pipeline, admin, registry, connect, memory, prune="prune" in given)
    else:  # the broker is of its own, and does not run: nothing is there
        from ottla.pipeline.apply import declared_schemas

        found = plan(pipeline.of("topics"), declared_schemas(pipeline), pipeline.of("connectors"), Seen(), {})
    if wants_json(given):
        print_json({"changes": [str(each) for each in found.changes], "refusals": list(found.refusals)})
        return int(bool(found.refusals))
    lines = [*map(str, found.changes), *(f"{each}: only with --prune" for each in found.left)]
    lines += [f"cannot be made so: {each}" for each in found.refusals]
    sys.stdout.write("".join(f"{line}\n" for line in lines or ["nothing would change"]))
    return int(bool(found.refusals))


def _run(given: Given) -> int:
    from ottla.client.errors import ClientError
    from ottla.connect.commands.asking import CallFailed
    from ottla.kernel.errors import ApiError
    from ottla.pipeline.supervise import NotRun, Supervisor

    pipeline, _ = _valid(given)
    names = {part.name for part in pipeline.parts}
    chosen = {flag: tuple(name for text in given.all(flag) for name in text.split(",")) for flag in ("only", "except")}
    for flag, chosen_names in chosen.items():
        for name in chosen_names:
            if name not in names:
                raise Misuse(f"--{flag} {name}: {given.words[0]} has no part of this name")
    state = _state(given, pipeline)
    supervisor = Supervisor(
        pipeline, state, _Screen([part.label for part in pipeline.parts]).say,
        only=chosen["only"], but=chosen["except"], prune="prune" in given, client=_client(pipeline),
    )  # fmt: skip
    try:
        return asyncio.run(supervisor.run())
    except (NotRun, CallFailed, ApiError, ClientError) as fault:
        sys.stderr.write(f"ottla: pipeline {pipeline.name}: {fault}\n")
        return 1


class _Screen:
    """Lines of all parts, each behind its part's label, in a colour of its own on a terminal."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._width = max(map(len, [*labels, "broker", "worker"]))
        self._colours: dict[str, str] = {}
        self._coloured = colours(sys.stdout)

    def say(self, label: str, line: str) -> None:
        shown = f"{label:<{self._width}}"
        if self._coloured:
            colour = self._colours.setdefault(label, _COLOURS[len(self._colours) % len(_COLOURS)])
            shown = f"\x1b[{colour}m{shown}\x1b[0m"
        print(f"{shown}  {line}", flush=True)


def _graph(given: Given) -> int:
    from ottla.pipeline import drawing

    pipeline, flows = _valid(given)
    live = _live(given, pipeline, flows) if "live" in given else drawing.NOTHING_LIVE
    if (path := given.text("svg")) is not None:
        Path(path).write_text(drawing.svg(pipeline, flows, live), encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
    else:
        sys.stdout.write(drawing.text(pipeline, flows, live))
    return 0


def _status(given: Given) -> int:
    pipeline, flows = _valid(given)
    status = _running(given, pipeline)
    if not status.get("pid"):
        sys.stderr.write(f"ottla: {pipeline.name} does not run here; `ottla pipeline run {given.words[0]}` runs it\n")
        return 1
    live = _live(given, pipeline, flows)
    if wants_json(given):
        print_json({**status, "notes": dict(live.notes)})
        return 0
    width = max(map(len, [*status["parts"], *live.notes, ""]))
    for label, text in status["parts"].items():
        note = f"  {live.notes[label]}" if label in live.notes else ""
        sys.stdout.write(f"{label:<{width}}  {text}{note}\n")
    for name, note in live.notes.items():
        if name not in status["parts"]:
            sys.stdout.write(f"{name:<{width}}  {note}\n")
    return 0


def _live(given: Given, pipeline: Pipeline, flows: Flows) -> LiveNotes:
    """Records a second of each topic and records behind of each group, over one second."""
    from ottla.pipeline.alerts import group_lag, topic_records
    from ottla.pipeline.live import groups_of, notes, topics_of

    status = _running(given, pipeline)
    bootstrap = str(pipeline.cluster["bootstrap"] or status.get("bootstrap", ""))
    if not bootstrap:
        raise BadInput(f"{pipeline.name} does not run, and its file names no cluster")
    topics, groups = topics_of(pipeline, flows), groups_of(pipeline, flows)
    with admin_of(bootstrap, _client(pipeline)) as admin:
        before, began = {topic: topic_records(admin, topic) for topic in topics}, time.monotonic()
        lags = {label: group_lag(admin, group) for label, group in groups.items()}
        time.sleep(max(0.0, _RATE_S - (time.monotonic() - began)))  # a rate needs two looks
        after = {topic: topic_records(admin, topic) for topic in before}
        seconds = time.monotonic() - began
    rates = {topic: (after[topic] - before[topic]) / seconds for topic in before}
    return notes(after, rates, lags, status.get("parts", {}))


def _schema(given: Given) -> int:
    from ottla.pipeline.editors import json_schema

    print(json.dumps(json_schema(), indent=1))
    return 0


def _state(given: Given, pipeline: Pipeline) -> Path:
    from ottla.pipeline.reading import state_folder

    return Path(given.text("state") or state_folder(pipeline))


def _running(given: Given, pipeline: Pipeline) -> dict[str, Any]:
    from ottla.pipeline.live import run_status

    return run_status(_state(given, pipeline))


def _client(pipeline: Pipeline) -> dict[str, Any]:
    config = str(pipeline.cluster["command_config"] or "")
    return read_properties(str(pipeline.path(config))) if config else {}


_SECTIONS = ("topics", "acls", "connectors", "programs", "streams", "lakes", "mirrors", "alerts")
_OVERLAY = Option("overlay", "A file laid over FILE, for one environment; may be repeated.", "FILE")
_STATE = Option("state", "Where the run keeps what it knows. Default: .ottla/NAME beside FILE.", "DIR")
_PRUNE = Option("prune", "Delete topics and connectors that an earlier run has made and that FILE has no more.")

VERBS = {
    "check": Command(
        "ottla pipeline check FILE", "Find what cannot work, without a cluster: each with its line.", _check,
        [_OVERLAY], words=(1, 1), connects=False,
    ),
    "plan": Command(
        "ottla pipeline plan FILE", "Show what a run would make, change and delete.", _plan, [_OVERLAY, _STATE, _PRUNE],
        words=(1, 1), connects=False,
    ),
    "run": Command(
        "ottla pipeline run FILE",
        "Make what FILE declares, then run every part until it is stopped. A part that fails is begun again.",
        _run,
        [
            _OVERLAY, _STATE, _PRUNE,
            Option("only", "Run these parts alone; names with commas between.", "NAMES"),
            Option("except", "Run all parts but these.", "NAMES"),
        ],
        words=(1, 1), has_json=False, connects=False,
    ),
    "graph": Command(
        "ottla pipeline graph FILE", "Draw the parts and topics, and what flows between them.", _graph,
        [
            _OVERLAY, _STATE, Option("svg", "Write a picture instead of text.", "PATH"),
            Option("live", "With records a second, and records behind, of the cluster."),
        ],
        words=(1, 1), has_json=False, connects=False,
    ),
    "status": Command(
        "ottla pipeline status FILE", "Show the state of each part of a run, with rates and lag.", _status,
        [_OVERLAY, _STATE], words=(1, 1), connects=False,
    ),
    "schema": Command(
        "ottla pipeline schema", "Print the JSON Schema of pipeline files, for editors.", _schema, [],
        has_json=False, connects=False,
    ),
}  # fmt: skip
