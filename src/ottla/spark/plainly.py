"""Errors as Spark shows them: the sentence in the first line, without the traceback of Spark's worker before it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.rows.plan import DataLoss
from ottla.spark.attempt import NotWritten

_OF_WORKERS = "PYTHON_WORKER_FACTORY_"
"""Prefix of the variables that Spark sets for the Python processes that it starts."""


@contextmanager
def said_plainly() -> Iterator[None]:
    """Let an error that is meant for the user leave one of Spark's Python processes as its sentence alone.

    Spark writes the whole traceback in front of the sentence, unless a variable of the process says otherwise. The
    process ends with the error, so that no other traceback is hidden; in other processes nothing is changed.
    """
    try:
        yield
    except (ApiError, ClientError, DataLoss, NotWritten, OSError, ValueError):
        if any(name.startswith(_OF_WORKERS) for name in os.environ):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
