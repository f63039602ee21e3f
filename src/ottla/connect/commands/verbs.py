"""Connectors listed, made, changed and looked at over the REST interface of a worker: verbs of `ottla connect`."""

from __future__ import annotations

import json
import sys
from typing import Any

from ottla.cli.command import Command, Verb, bad, good, print_json, print_table, wants_json
from ottla.cli.faults import BadInput, Misuse, text_of
from ottla.cli.options import Given, Option
from ottla.connect.commands.asking import DEFAULT_URL, ask, checked_url, escaped

URL = Option("url", "A worker's REST interface.", "URL", default=DEFAULT_URL)


def _ask(given: Given, method: str, path: str, body: Any = None) -> Any:
    return ask(checked_url(given.need("url")), method, path, body)


def _path(given: Given, rest: str = "") -> str:
    return f"/connectors/{escaped(given.words[0])}{rest}"


def _list(given: Given) -> int:
    """Connectors with their states."""
    found = _ask(given, "GET", "/connectors?expand=status&expand=info")
    if wants_json(given):
        print_json(found)
        return 0
    if not found:
        sys.stderr.write("there are no connectors; `ottla connect create FILE` makes one\n")
        return 0
    rows = []
    for name in sorted(found):
        status, info = found[name].get("status", {}), found[name].get("info", {})
        tasks = [each["state"] for each in status.get("tasks", ())]
        states = ", ".join(f"{tasks.count(each)} {each}" for each in sorted(set(tasks))) or "none"
        shown = _state(status.get("connector", {}).get("state", "UNASSIGNED"))
        rows.append([name, info.get("type", "unknown"), shown, states, info.get("config", {}).get("connector.class")])
    print_table(["CONNECTOR", "TYPE", "STATE", "TASKS", "CLASS"], rows)
    return 0


def _state(state: str) -> str:
    return bad(state) if state == "FAILED" else good(state) if state == "RUNNING" else state


def _status(given: Given) -> int:
    """The states of a connector and its tasks, with the traces of failures; exit status 1 if something failed."""
    found = _ask(given, "GET", _path(given, "/status"))
    parts = [("connector", found["connector"]), *((f"task {each['id']}", each) for each in found["tasks"])]
    failed = any(each["state"] == "FAILED" for _, each in parts)
    if wants_json(given):
        print_json(found)
        return int(failed)
    phased = any(each.get("phase") for _, each in parts)
    print_table(
        ["PART", "STATE", *(["PHASE"] if phased else []), "WORKER"],
        [
            [name, _state(each["state"]), *([each.get("phase", "")] if phased else []), each["worker_id"]]
            for name, each in parts
        ],
    )
    for name, each in parts:
        if each.get("trace"):
            sys.stdout.write(f"\n{name}:\n{each['trace'].rstrip()}\n")
    return int(failed)


def _document(path: str) -> dict[str, Any]:
    """A connector in a file: `{"name", "config"}`, or the configuration alone with `name` in it."""
    try:
        found = json.loads(text_of(path))
    except ValueError as fault:
        raise BadInput(f"{path} is no JSON: {fault}") from None
    if not isinstance(found, dict):
        raise BadInput(f"{path} holds no object: write name and config, or the configuration with its name")
    if "config" not in found:
        found = {"name": found.get("name"), "config": found}
    if not isinstance(found["config"], dict) or not found.get("name"):
        raise BadInput(f"{path} names no connector: write name beside config, or in the configuration")
    return found


def _create(given: Given) -> int:
    """Make a connector; with --replace, give one that exists this configuration."""
    made = _document(given.words[0])
    if "replace" in given:
        if "state" in given:
            raise Misuse("--state is for new connectors: give it without --replace")
        path = f"/connectors/{escaped(made['name'])}/config"
        answer = _ask(given, "PUT", path, {**made["config"], "name": made["name"]})
    else:
        state = {"initial_state": given.need("state").upper()} if "state" in given else {}
        answer = _ask(given, "POST", "/connectors", made | state)
    if wants_json(given):
        print_json(answer)
    else:
        sys.stdout.write(f"{answer['name']}: a {answer['type']} connector\n")
    return 0


def _calling(method: str, rest: str, outcome: str) -> Verb:
    def call(given: Given) -> int:
        _ask(given, method, _path(given, rest))
        sys.stdout.write(f"{given.words[0]}: {outcome}\n")
        return 0

    return call


def _restart(given: Given) -> int:
    name, task = given.words[0], given.text("task")
    if task is not None:
        if not task.isdecimal():
            raise Misuse(f"--task {task!r} is not the number of a task")
        _ask(given, "POST", _path(given, f"/tasks/{task}/restart"))
        sys.stdout.write(f"{name}: task {task} is restarted\n")
        return 0
    only = "true" if "failed" in given else "false"
    _ask(given, "POST", _path(given, f"/restart?includeTasks=true&onlyFailed={only}"))
    sys.stdout.write(
        f"{name}: {'what has failed of it is restarted' if only == 'true' else 'is restarted, with its tasks'}\n"
    )
    return 0


def _offsets(given: Given) -> int:
    """Show offsets; set those of a file; or remove all."""
    path, file = _path(given, "/offsets"), given.text("set")
    if file is not None and "reset" in given:
        raise Misuse("give --set FILE or --reset, not both")
    if file is not None:
        try:
            changes = json.loads(text_of(file))
        except ValueError as fault:
            raise BadInput(f"{file} is no JSON: {fault}") from None
        sys.stdout.write(_ask(given, "PATCH", path, changes)["message"] + "\n")
        return 0
    if "reset" in given:
        sys.stdout.write(_ask(given, "DELETE", path)["message"] + "\n")
        return 0
    found = _ask(given, "GET", path)
    if wants_json(given):
        print_json(found)
        return 0
    rows = [[json.dumps(each["partition"]), json.dumps(each["offset"])] for each in found["offsets"]]
    print_table(["PARTITION", "OFFSET"], rows)
    return 0


def _plugins(given: Given) -> int:
    found = _ask(given, "GET", f"/connector-plugins?connectorsOnly={'false' if 'all' in given else 'true'}")
    if wants_json(given):
        print_json(found)
    else:
        rows = [
            [each["class"], each["type"], each["version"], ", ".join(each.get("runners", ["light"]))] for each in found
        ]
        print_table(["CLASS", "TYPE", "VERSION", "RUNS"], rows)
    return 0


def _validate(given: Given) -> int:
    """Check a configuration without making anything; exit status 1 if it has faults."""
    made = _document(given.words[0])
    config = {**made["config"], "name": made["name"]}
    path = f"/connector-plugins/{escaped(str(config.get('connector.class')))}/config/validate"
    found = _ask(given, "PUT", path, config)
    if wants_json(given):
        print_json(found)
    elif not found["error_count"]:
        sys.stdout.write(good("valid") + "\n")
    else:
        for each in found["configs"]:
            sys.stdout.write("".join(f"{each['value']['name']}: {error}\n" for error in each["value"]["errors"]))
    return int(bool(found["error_count"]))


def _verb(usage: str, about: str, do: Verb, *options: Option, words: int = 0, has_json: bool = True) -> Command:
    return Command(
        f"ottla connect {usage}", about, do, [URL, *options], words=(words, words), has_json=has_json, connects=False
    )


def _change(verb: str, about: str, method: str, rest: str, outcome: str) -> Command:
    return _verb(f"{verb} NAME", about, _calling(method, rest, outcome), words=1, has_json=False)


_STATE = Option("state", "The state to begin in.", "STATE", choices=("running", "paused", "stopped"))
VERBS = {
    "list": _verb("list", "List connectors with their states.", _list),
    "status": _verb("status NAME", "Show the states of a connector and its tasks, and why they failed.", _status,
                    words=1),
    "create": _verb("create FILE", "Make a connector from a JSON file.", _create, _STATE,
                    Option("replace", "Give a connector that exists this configuration."), words=1),
    "pause": _change("pause", "Pause a connector and its tasks.", "PUT", "/pause", "is paused"),
    "resume": _change("resume", "Let a paused or stopped connector go on.", "PUT", "/resume", "goes on"),
    "stop": _change("stop", "Stop a connector: it has no tasks, and its offsets can be changed.", "PUT", "/stop",
                    "is stopped"),
    "restart": _verb("restart NAME", "Restart a connector and its tasks.", _restart,
                     Option("failed", "Only the parts that failed."), Option("task", "Only this task.", "N"), words=1,
                     has_json=False),
    "delete": _change("delete", "Delete a connector. Its offsets stay.", "DELETE", "", "is deleted"),
    "offsets": _verb("offsets NAME", "Show the offsets of a connector; change those of a stopped one.", _offsets,
                     Option("set", "Set the offsets in this file, in the form that --format json shows.", "FILE"),
                     Option("reset", "Remove all: it begins anew."), words=1),
    "plugins": _verb("plugins", "List the connectors that can be made.", _plugins,
                     Option("all", "Converters, transformations and predicates too.")),
    "validate": _verb("validate FILE", "Check the configuration of a connector option by option.", _validate, words=1),
}  # fmt: skip
