"""Runs work with a few edits of the source, in a child process: edited functions get the code of the edited text.

The children are forked from one process that has imported everything and has played two worlds. A copy of the source
for each edit would be imported and compiled anew, which takes longer than the worlds.
"""

from __future__ import annotations

import gc
import importlib
import logging
import multiprocessing
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from inspect import CO_NEWLOCALS, CO_OPTIMIZED
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

SOURCE = Path(__file__).parents[2] / "src" / "ottla"
Edit = tuple[str, str, str]
"""(file, old, new); `old` occurs exactly once in its file."""
Made = TypeVar("Made")

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.sim.warm"])


def run_edited(edits: Iterable[Edit], work: Callable[..., Made], *arguments: object) -> Made:
    """Return the result of the work, done with the edits made."""
    reader, writer = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_run, args=(writer, tuple(edits), work, arguments))
    process.start()
    writer.close()
    try:
        with reader:
            made, fault = reader.recv()
    finally:
        process.join()
    assert fault is None, fault
    return made  # type: ignore[no-any-return]


def _run(writer: Connection, edits: tuple[Edit, ...], work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    logging.getLogger("ottla").setLevel(logging.CRITICAL + 1)
    try:
        make(edits)
        gc.freeze()  # so that collections look at what the work makes alone
        writer.send((work(*arguments), None))
    except BaseException:
        writer.send((None, traceback.format_exc()))
        raise


def make(edits: Iterable[Edit]) -> None:
    """Make the edits in this process, for good."""
    by_file: dict[str, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_file[edit[0]].append(edit)
    for file, own in by_file.items():
        text = sound = (SOURCE / file).read_text()
        for _, old, new in own:
            assert text.count(old) == 1, f"{file} is written otherwise now: mend the edit"
            text = text.replace(old, new)
        place = importlib.import_module("ottla." + file.removesuffix(".py").replace("/", ".")).__file__
        assert place is not None
        _exchange(compile(sound, place, "exec"), compile(text, place, "exec"))


def _exchange(was: CodeType, now: CodeType) -> None:
    """Give each function whose code differs the code of the edited text."""
    before, after = dict(_functions(was)), dict(_functions(now))
    assert _outline(was) == _outline(now), f"{was.co_filename}: an edit must lie within functions"
    differ = {key: code for key, code in after.items() if _meaning(code) != _meaning(before[key])}
    assert differ, f"{was.co_filename}: the edits change nothing"
    places = {(before[key].co_qualname, before[key].co_firstlineno): code for key, code in differ.items()}
    met = set()
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == was.co_filename:
            place = (each.__code__.co_qualname, each.__code__.co_firstlineno)
            if place in places:
                each.__code__ = places[place]
                met.add(place)
    assert met == places.keys(), f"{was.co_filename}: no function has the code of {places.keys() - met}"


def _functions(code: CodeType, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], CodeType]]:
    """The functions of a module and its classes, each with its place in them."""
    for place, inner in enumerate(each for each in code.co_consts if isinstance(each, CodeType)):
        if _is_function(inner):
            yield (*path, place), inner
        else:
            yield from _functions(inner, (*path, place))


def _is_function(code: CodeType) -> bool:
    return code.co_flags & (CO_NEWLOCALS | CO_OPTIMIZED) == CO_NEWLOCALS | CO_OPTIMIZED


def _outline(code: CodeType) -> object:
    """A module or a class by all that is not inside its functions."""
    inner = [
        (each.co_qualname, each.co_freevars) if _is_function(each) else _outline(each)
        for each in code.co_consts
        if isinstance(each, CodeType)
    ]
    others = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, code.co_names, inner, others


def _meaning(code: CodeType) -> object:
    """A function by all that it does, wherever its lines are."""
    consts = [_meaning(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts
