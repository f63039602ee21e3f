"""Makes Spark's Pythons start faster: `spark.python.daemon.module`, and on one machine a launcher.

Spark puts pyspark.zip first on the path, whose modules every new Python compiles again; where the same pyspark is
installed beside it, with compiled modules, that one is taken. And the client that tasks of ours use is imported once,
before workers are forked. Not pyarrow, numpy or pandas: they start threads, which a fork would lose.

For each step of planning Spark starts a Python too, by a module that no setting changes: hence the launcher.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TextIO

WORKER = "pyspark.worker"
LAUNCHER = """\
#!/bin/sh
# Python for Spark, without this archive of modules: the same ones are installed, and compiled.
path=":$PYTHONPATH:"
for archive in {archives}; do
    case "$path" in
        *":$archive:"*) path="${{path%%":$archive:"*}}:${{path#*":$archive:"}}" ;;
    esac
done
path="${{path#:}}"
PYTHONPATH="${{path%:}}" exec {python} "$@"
"""


def without_archives(paths: list[str]) -> list[str]:
    """The path without pyspark's archives where the installed pyspark that they belong to is on it too."""
    archives = [
        path for path in paths if path.endswith(".zip") and Path(path).parts[-4:-1] == ("pyspark", "python", "lib")
    ]
    searched = {Path(path).resolve() for path in paths if path}
    ours = {
        archive
        for archive in archives
        if (home := Path(archive).parents[2]).joinpath("__init__.py").exists() and home.parent.resolve() in searched
    }
    return [path for path in paths if path not in ours]


@cache
def launcher() -> str:
    """A program that starts this Python without pyspark's archive; this Python where there cannot be one.

    It costs a shell's start and saves over half a second of compiling. Removed when this process ends.
    """
    import pyspark

    folder = Path(tempfile.mkdtemp(prefix="ottla-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "python"
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    archives = shlex.join(dict.fromkeys([str(archive), str(archive.resolve())]))
    program.write_text(LAUNCHER.format(archives=archives, python=shlex.quote(sys.executable)))
    program.chmod(0o700)
    return str(program) if os.access(program, os.X_OK) else sys.executable


def main() -> None:
    """Become pyspark.daemon."""
    sys.path[:] = without_archives(sys.path)
    if sys.argv[1:2] in ([], [WORKER]):
        with contextlib.suppress(ImportError):
            import ottla.records.columns
            import ottla.rows.connections  # noqa: F401
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)
    daemon.print = unless_hung_up  # type: ignore[attr-defined]
    daemon.manager()


def quiet(worker: Callable[..., int]) -> Callable[..., int]:
    """The loop of a forked worker. It ends without a traceback if Spark has closed the connection."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    return run


def unless_hung_up(text: str, file: TextIO) -> None:
    """The `print` of pyspark's daemon, which shows a traceback where a worker's last bytes have no reader any more.

    Spark closes the connections of idle workers when a session stops: no row is lost, since no task is at work.
    """
    if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
        file.write(f"{text}\n")


if __name__ == "__main__":
    main()
