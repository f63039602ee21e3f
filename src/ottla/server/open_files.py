"""The number of files this process may have open, and whether that is enough for the logs that it has."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterable

from ottla.storage.disk.local import LocalDisk

FILES_OF_A_LOG = 3
_OF_ITS_OWN = 16
_FEW = 1024
_REPLICA = re.compile(r".+-\d+")
RAISE_IT = "raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd)"


def too_few(paths: Iterable[str]) -> str | None:
    """The reason why the broker cannot start if its logs need more files than it may open; else None."""
    replicas = sum(_replicas_in(path) for path in paths)
    needed = FILES_OF_A_LOG * replicas + _OF_ITS_OWN
    if LocalDisk().free_files() >= needed:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{replicas} replicas need {needed} open files, and this process may have {limit}: {RAISE_IT}"


def warning() -> str | None:
    """A sentence if the limit leaves room for few partitions only; else None."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= _FEW:
        return None
    return f"this process may have {limit} files open, and a partition takes {FILES_OF_A_LOG} of them: {RAISE_IT}"


def _replicas_in(path: str) -> int:
    try:
        with os.scandir(path) as found:
            return sum(entry.is_dir() and _REPLICA.fullmatch(entry.name) is not None for entry in found)
    except OSError:
        return 0  # opening the directory reports why it cannot be read
