"""`ottla cluster down`: end the cluster that `ottla cluster up` runs in a directory, and wait until it is gone."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from ottla.server.cluster_control import Ending
from ottla.server.cluster_up import DEFAULT_DATA, LOCK

_LOOK_EVERY_S = 0.05
_CONTROL_WITHIN_S = 10.0
"""The time for which a cluster may hold its lock before it listens to others, and after."""


def command(arguments: Sequence[str]) -> int:
    """The exit status: 0 if all brokers stopped by themselves, 1 if none ran or some had to be killed."""
    options = _parser().parse_args(arguments)
    if options.timeout < 1:
        print(f"ottla: --timeout {options.timeout}: at least 1 is possible", file=sys.stderr)
        return 2
    directory = os.path.abspath(options.data)
    try:
        ending = _find(directory)
        if ending is None:
            print(f"ottla: no cluster is up in {directory}", file=sys.stderr)
            return 1
        return _end(ending, directory, options.timeout)
    except TimeoutError:
        print(
            f"ottla: the cluster in {directory} has said nothing for {options.timeout} s: its `ottla cluster up` "
            "hangs or stands still, so it was not ended",
            file=sys.stderr,
        )
    except OSError as fault:
        print(f"ottla: the cluster in {directory} cannot be ended: {fault.strerror}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla cluster down",
        description="End the cluster that `ottla cluster up` runs on this machine, in another terminal or in the "
        "background: every broker hands over what it leads and stops.",
    )
    parser.add_argument(
        "--data", default=DEFAULT_DATA, metavar="DIR", help=f"where its data lives (default {DEFAULT_DATA})"
    )
    parser.add_argument(
        "--timeout", type=int, default=60, metavar="SECONDS",
        help="give up where the cluster says nothing for so long (default 60)",
    )  # fmt: skip
    return parser


def _find(directory: str) -> Ending | None:
    """The running cluster, or None; TimeoutError if its lock is held and no process answers."""
    end = time.monotonic() + _CONTROL_WITHIN_S
    while (ending := Ending.connect(directory)) is None:
        if not _is_up(directory):
            return None
        if time.monotonic() > end:
            raise OSError(0, f"{os.path.join(directory, LOCK)} is held by a process that cannot be asked to stop")
        time.sleep(_LOOK_EVERY_S)
    return ending


def _end(ending: Ending, directory: str, within_s: int) -> int:
    print(f"ending the cluster in {directory}", flush=True)
    killed: object = None
    for event in ending.events(within_s):
        if "said" in event:
            print(event["said"], flush=True)
        killed = event.get("killed", killed)
    end = time.monotonic() + _CONTROL_WITHIN_S
    while _is_up(directory) and time.monotonic() < end:  # or by another cluster that started meanwhile
        time.sleep(_LOOK_EVERY_S)
    if killed is None:
        print("ottla: its `ottla cluster up` died before all brokers had stopped", file=sys.stderr)
        return 1
    print(f"the cluster in {directory} is down", flush=True)
    return 1 if killed else 0


def _is_up(directory: str) -> bool:
    """True if a process holds the lock of the directory."""
    from ottla.storage.disk.local import LocalDisk

    path = os.path.join(directory, LOCK)
    if not os.path.exists(path):
        return False
    lock = LocalDisk().lock(path)
    if lock is None:
        return True
    lock.release()
    return False
