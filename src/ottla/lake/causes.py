"""Errors of failed Spark jobs: their types, and the one line that says why a job failed."""

from __future__ import annotations

import re

_SAYS_WHY = re.compile(r"[\w.]+(Error|Exception|DataLoss|Refused|Lost|TimedOut|Unreachable|Unavailable)\b.*: ")


def job_errors() -> tuple[type[Exception], ...]:
    """The types of errors that a Spark job fails with: the second one where a Python task raised."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException


def cause(fault: Exception) -> str:
    """The first error in a Python worker's traceback inside a long text; else the text's first line."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    inner = [line for line in lines if _SAYS_WHY.match(line)]
    return (inner or lines or [type(fault).__name__])[0]
