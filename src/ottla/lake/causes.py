"""Errors of failed tasks, on Spark and here: their types, and the one line that says why a task failed."""

from __future__ import annotations

import re
import sys

from ottla.rows.workers import TaskFailed

_SAYS_WHY = re.compile(r"[\w.]+(Error|Exception|DataLoss|Refused|Lost|TimedOut|Unreachable|Unavailable)\b.*: ")


def job_errors() -> tuple[type[Exception], ...]:
    """The types of errors that a task fails with: on Spark, where it runs, the last one where a Python task raised."""
    if "pyspark" not in sys.modules:
        return (TaskFailed,)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return TaskFailed, Py4JError, PySparkException


def cause(fault: Exception) -> str:
    """The first error in a Python worker's traceback inside a long text; else the text's first line."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    inner = [line for line in lines if _SAYS_WHY.match(line)]
    return (inner or lines or [type(fault).__name__])[0]
