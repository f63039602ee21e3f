"""`ottla cluster down`: end the cluster that `ottla cluster up` runs in a directory, and wait until it is gone."""

from __future__ import annotations

import os
import sys
import time

from ottla.server.cluster_control import Ending
from ottla.server.supervisor import LOCK

_LOOK_EVERY_S = 0.05
_CONTROL_WITHIN_S = 10.0
"""The time for which a cluster may hold its lock before it listens to others, and after."""


def down(data: str, timeout_s: float) -> int:
    """The exit status: 0 if all brokers stopped by themselves, 1 if none ran or some had to be killed.

    `timeout_s`: how long the cluster may say nothing before it is given up.
    """
    directory = os.path.abspath(data)
    try:
        ending = _find(directory)
        if ending is None:
            print(f"ottla: no cluster is up in {directory}", file=sys.stderr)
            return 1
        return _end(ending, directory, timeout_s)
    except TimeoutError:
        print(
            f"ottla: the cluster in {directory} has said nothing for {timeout_s:g} s: its `ottla cluster up` "
            "hangs or stands still, so it was not ended",
            file=sys.stderr,
        )
    except OSError as fault:
        print(f"ottla: the cluster in {directory} cannot be ended: {fault.strerror}", file=sys.stderr)
    return 1


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


def _end(ending: Ending, directory: str, within_s: float) -> int:
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
