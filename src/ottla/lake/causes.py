"""Finds the one line of a failed Spark job's error that says why it failed."""

from __future__ import annotations

import re

_SAYS_WHY = re.compile(r"[\w.]+(Error|Exception|DataLoss|Refused|Lost|TimedOut|Unreachable|Unavailable)\b.*: ")


def cause(fault: Exception) -> str:
    """The last line of a Python worker's traceback inside a long Java one; else the error's first line."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    inner = [line for line in lines if _SAYS_WHY.match(line)]
    return (inner or lines or [type(fault).__name__])[0]
