"""An ottla command for spark-submit, which wants a file: `spark-submit OPTIONS .../ottla/spark/main.py lake load ...`.

The command finds the session of spark-submit active. `python -m ottla.spark.main` prints where this file is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module


def main(arguments: Sequence[str]) -> int:
    """Run `ottla ARGUMENTS` in a session; the exit status."""
    if not arguments:
        sys.stdout.write(f"{os.path.abspath(__file__)}\n")
        return 0
    from ottla.spark.launch import SparkRefused
    from ottla.spark.submit import SparkSettings, open_session

    run: Callable[[Sequence[str]], int] = import_module("ottla.cli.main").main
    try:
        opened = open_session(SparkSettings(), application=" ".join(["ottla", *arguments[:2]]))
    except SparkRefused as fault:
        sys.stderr.write(f"ottla: {fault}\n")
        return 1
    try:
        return run(arguments)
    finally:
        opened.close()


def without_own_folder(paths: list[str]) -> list[str]:
    """The path without the folder of this file, whose modules would hide others of the same name."""
    own = os.path.dirname(os.path.abspath(__file__))
    return [path for path in paths if os.path.abspath(path or ".") != own]


if __name__ == "__main__":
    if os.path.isfile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "submit.py")):
        sys.path[:] = without_own_folder(sys.path)
    sys.exit(main(sys.argv[1:]))
