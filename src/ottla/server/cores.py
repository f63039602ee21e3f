"""Counts the cores that this process may use: those that it may run on, and its share of them in a container."""

from __future__ import annotations

import contextlib
import os

_CGROUP = "/sys/fs/cgroup/cpu.max"


def cores() -> int:
    """The whole cores for this process; at least 1."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = ""
    with contextlib.suppress(OSError), open(_CGROUP, encoding="ascii") as file:
        quota = file.read()
    return cores_within(able, quota)


def cores_within(able: int, quota: str) -> int:
    """`able` cores, limited by the text of a control group's cpu.max: "200000 100000" is two cores, "max ..." all."""
    share, _, period = quota.strip().partition(" ")
    if share.isascii() and share.isdigit() and period.isdigit() and int(period):
        able = min(able, int(share) // int(period))
    return max(1, able)
