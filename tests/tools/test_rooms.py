"""tools/rooms.py finds the modules that a request crosses, and counts each switch between them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import rooms  # noqa: E402

A = """
def outer():
    own()
    for _ in range(3):
        there()
    back(own)

def own():
    pass
"""
B = """
def there():
    pass

def back(call):
    call()
"""


def traced(function: Any) -> rooms.Walk:
    """The walk of a function that a new thread runs."""
    tracer = rooms.Tracer()
    tracer.install()
    try:
        tracer.begin("one")
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()
        return tracer.end()
    finally:
        tracer.remove()


def test_each_call_into_another_module_is_a_switch_and_a_call_inside_of_one_is_none() -> None:
    there: dict[str, Any] = {"__name__": "ottla.b"}
    here: dict[str, Any] = {"__name__": "ottla.a"}
    exec(B, there)
    exec(A, here)
    here |= {"there": there["there"], "back": there["back"]}
    walk = traced(here["outer"])
    assert [
        (step.module, step.function, step.depth, step.times) for steps in walk.steps.values() for step in steps
    ] == [
        ("a", "outer", 1, 1),
        ("b", "there", 2, 3),
        ("b", "back", 2, 1),
        ("a", "own", 3, 1),
    ]
    assert (walk.modules, walk.switches) == (["a", "b"], 6)


def test_code_that_is_not_ours_is_no_room() -> None:
    assert traced(lambda: json.dumps({"a": 1})).modules == []


def test_the_tool_counts_the_rooms_of_a_running_broker() -> None:
    done = subprocess.run(
        [sys.executable, "tools/rooms.py", "--format", "json"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    first, again, fetched, created = json.loads(done.stdout)
    for walk in (first, again, fetched, created):
        steps = [step for thread in walk["walk"] for step in thread]
        assert walk["switches"] == sum(step["times"] for step in steps) >= len(walk["modules"])
        assert walk["modules"][0] == "server.channel"
    assert {"broker.requests.dispatch", "broker.handlers.produce", "storage.log", "server.sync_loop"} <= {
        *first["modules"]
    }
    assert "broker.requests.produce_again" in again["modules"]
    assert "broker.handlers.produce" not in again["modules"]
    assert {"broker.handlers.fetch", "storage.reading"} <= {*fetched["modules"]}
    assert {"cluster.decide", "metadata.entries", "coordination.sqlite", "storage.recovery"} <= {*created["modules"]}
