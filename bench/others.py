"""Counts the processor time that processes outside one family use, from one look at /proc to the next.

The machine's time less our own is no measure of it: a child of a process that ignores SIGCHLD, as Spark's daemon does,
takes its time with it when it ends, so ours would be missing and counted as others'. Only processes outside the family
are added up here. A process that ends between two looks is found in what its parent has reaped. Threads of the kernel
work for everybody and count for nobody.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

KERNEL_THREAD = 0x00200000
"""PF_KTHREAD among the flags of a process."""


class Process(NamedTuple):
    """A process at one moment; times are in clock ticks."""

    pid: int
    began: int
    """The tick of its start: with the pid, its identity."""
    parent: int
    used: int
    """User and system time of its threads."""
    reaped: int
    """User and system time of the children that ended and that it waited for, and of theirs."""


@dataclass
class Others:
    """Adds up what processes outside a family use.

    The family is the process `root` and its descendants; what belonged to it once always does. Where `root` is a
    subreaper (`bench.keeper`), no descendant is ever reaped by a process outside.
    """

    root: int
    ticks: int = 0
    """Used by others between the first look and the last."""
    _family: set[tuple[int, int]] = field(default_factory=set)
    _seen: dict[int, Process] | None = None

    def look(self, now: dict[int, Process]) -> None:
        """Take the processes of this moment, by pid."""
        self._family |= family_of(self.root, now)
        if self._seen is not None:
            used = used_between(self._seen, now)
            self.ticks += sum(ticks for pid, ticks in used.items() if identity(now[pid]) not in self._family)
        self._seen = now


def used_between(before: dict[int, Process], now: dict[int, Process]) -> Counter[int]:
    """The ticks that each living process used in between, with those of its children that ended.

    What a parent reaped contains the whole life of a child; the part that was there at the look before is taken off.
    A child that ended without being waited for has used nothing since that look, for all that can be known.
    """
    ended: Counter[int] = Counter()
    for process in before.values():
        if not lives(process, now):
            ended[heir(process, before, now)] += process.used + process.reaped
    used: Counter[int] = Counter()
    for pid, process in now.items():
        known = before[pid] if pid in before and lives(before[pid], now) else Process(pid, process.began, 0, 0, 0)
        used[pid] = process.used - known.used + max(process.reaped - known.reaped - ended[pid], 0)
    return used


def heir(process: Process, before: dict[int, Process], now: dict[int, Process]) -> int:
    """The nearest ancestor that still lives; 0 if none is known."""
    passed = {process.pid}
    while (parent := before.get(process.parent)) is not None and parent.pid not in passed:
        if lives(parent, now):
            return parent.pid
        passed.add(parent.pid)
        process = parent
    return 0


def lives(process: Process, now: dict[int, Process]) -> bool:
    """True if the process is among those of now, and no other one under its pid."""
    return process.pid in now and now[process.pid].began == process.began


def family_of(root: int, processes: dict[int, Process]) -> set[tuple[int, int]]:
    """The identities of a process and its descendants."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found = [processes[root]] if root in processes else []
    for member in found:
        found += children.get(member.pid, ())
    return {identity(member) for member in found}


def identity(process: Process) -> tuple[int, int]:
    return process.pid, process.began


def processes_now() -> dict[int, Process]:
    """Every process of the machine by its pid, without the kernel's threads; one that ends meanwhile may be missing."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if not int(fields[6]) & KERNEL_THREAD:
                user, system, reaped_user, reaped_system = map(int, fields[11:15])
                found[int(name)] = Process(
                    int(name), int(fields[19]), int(fields[1]), user + system, reaped_user + reaped_system
                )
    return found
