"""Helps for Spark's Python workers: answers leave at once, and imports run while the worker waits."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
import threading
from importlib import import_module
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")
_hurried: set[int] = set()
"""The ids of processes that are done."""


def hurry_answers() -> None:
    """No delay on the TCP sockets of this process, where it is one of Spark's workers; once in its life.

    Spark's own socket to the JVM has none set: the end of an answer larger than a segment waits for an
    acknowledgement that the JVM's side holds back for 40 ms, a third of a small micro-batch's whole time.
    """
    mine = os.getpid()
    if mine in _hurried or "pyspark.daemon" not in sys.modules:
        return
    _hurried.add(mine)
    with contextlib.suppress(OSError):
        for descriptor in [int(each.name) for each in DESCRIPTORS.iterdir()]:
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    _without_delay(descriptor)


def import_ahead(module: str = "pandas") -> threading.Thread | None:
    """Import a module in a thread, where it is not there yet.

    Spark packs the message that a writing task returns by `pyarrow.array`, which imports pandas: a third of a second
    of a processor, after the last row. At the start of a task the worker waits for the JVM to make the first rows.
    """
    if module in sys.modules:
        return None
    thread = threading.Thread(target=_import, args=(module,), name="ottla-import", daemon=True)
    thread.start()
    return thread


def _import(module: str) -> None:
    with contextlib.suppress(ImportError):
        import_module(module)


def _without_delay(descriptor: int) -> None:
    """Set the option; OSError if the socket is not one of TCP."""
    with socket.socket(fileno=os.dup(descriptor)) as ours:
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
