"""Things that the options of `ottla streams` name: a topology, an application, its places."""

from __future__ import annotations

import importlib
import runpy

from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given
from ottla.streams.graph import Topology
from ottla.streams.naming import nearest

_USUAL = "topology"


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


def application(given: Given) -> str:
    application_id = given.text("application-id")
    if not application_id:
        raise Misuse("--application-id is missing: it names the consumer group and the application's own topics")
    return application_id


def places(given: Given) -> tuple[str, str]:
    """The places of the checkpoint and of the state that the options name."""
    from ottla.streams.on_spark.places import checkpoint_place, state_place

    application_id, checkpoint = application(given), given.text("checkpoint")
    return checkpoint_place(application_id, checkpoint), state_place(application_id, checkpoint, given.text("state"))
