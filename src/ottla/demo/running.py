"""The pipeline's file, run by `ottla pipeline run` as a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

FILE = Path(__file__).with_name("flights.yaml")


def run_pipeline(folder: Path, say: Callable[[str], None]) -> tuple[int, Path]:
    """Run the file in a folder until all its parts have ended; each line is said. The exit status and the file."""
    file = folder / FILE.name
    shutil.copy(FILE, file)
    command = [ottla(), "pipeline", "run", str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            say(line.rstrip())
    return process.returncode, file


def ottla() -> str:
    """The command beside the Python that runs this."""
    return str(Path(sys.executable).with_name("ottla"))
