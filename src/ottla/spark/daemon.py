"""The parent of Spark's Python workers, started faster: `spark.python.daemon.module`, which session.py sets.

Spark puts pyspark.zip first on the path, whose modules every new Python compiles again; where the same pyspark is
installed beside it, with compiled modules, that one is taken. And the client that tasks of ours use is imported once,
before workers are forked. Not pyarrow, numpy or pandas: they start threads, which a fork would lose.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

WORKER = "pyspark.worker"


def without_archives(paths: list[str]) -> list[str]:
    """The path without pyspark's archives where the installed pyspark that they belong to is on it too."""
    archives = [
        path for path in paths if path.endswith(".zip") and Path(path).parts[-4:-1] == ("pyspark", "python", "lib")
    ]
    ours = {
        archive
        for archive in archives
        if (home := Path(archive).parents[2]).joinpath("__init__.py").exists() and str(home.parent) in paths
    }
    return [path for path in paths if path not in ours]


def main() -> None:
    """Become pyspark.daemon."""
    sys.path[:] = without_archives(sys.path)
    if sys.argv[1:2] in ([], [WORKER]):
        with contextlib.suppress(ImportError):
            import ottla.records.columns
            import ottla.spark.connections  # noqa: F401
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
