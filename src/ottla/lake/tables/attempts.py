"""Commits that are tried again: reload, ask the guard, try, and after a conflict or a lost answer begin anew."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from ottla.stores.base import StoreUnreachable

Loaded = TypeVar("Loaded")
CONFLICTS, FAULTS = 60, 6
"""The most tries of a commit where others were faster, and where the store or the catalog failed."""


class CommitConflict(StoreUnreachable):
    """Another writer committed first; nothing of this try is visible."""


class CommitUnknown(StoreUnreachable):
    """The store or the catalog failed; the commit may be visible or not."""


def commit_once(
    name: str,
    reload: Callable[[], Loaded],
    standing: Callable[[Loaded], bool | None],
    attempt: Callable[[Loaded], None],
    told_apart: Callable[[], AbstractContextManager[None]],
) -> bool:
    """Commit a round exactly once. True where one of these tries made it visible, False where it stood before.

    `standing` is asked before every try: None where the table lacks the round, else whether a try of ours put it
    there, which happens when its answer was lost. `told_apart` turns a library's errors into Conflict and Unknown.
    """
    conflicts = faults = 0
    last: StoreUnreachable
    while True:
        try:
            with told_apart():
                table = reload()
                if (ours := standing(table)) is not None:
                    return ours
                attempt(table)
        except CommitConflict as fault:
            conflicts, last = conflicts + 1, fault
        except CommitUnknown as fault:
            faults, last = faults + 1, fault
        else:
            return True
        if conflicts >= CONFLICTS or faults >= FAULTS:
            raise StoreUnreachable(f"{name}: gave up after {conflicts + faults} tries: {last}") from last
        time.sleep(random.uniform(0, min(2.0, 0.01 * 2 ** min(conflicts + 3 * faults, 8))))
