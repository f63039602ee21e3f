"""Starts Spark's Java process: looks for Java first, and can keep what the process prints instead of showing it.

The process hands its streams on to Python workers, so that their lines are kept, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from pyspark import SparkConf

KEPT_LINES = 400
_LONGEST_LINE = 2_000
INSTALL = (
    "install one: apt install openjdk-17-jre-headless (Debian, Ubuntu), dnf install java-17-openjdk-headless (Fedora), "
    "brew install openjdk@17 (macOS); or set JAVA_HOME"
)
NO_JAVA = f"Spark needs a Java runtime of version 17 or 21, and there is none: {INSTALL}"
_NOISE = re.compile(
    r"WARNING: |Using Spark's default log4j profile|Setting default log level|To adjust logging level|"
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN |:: |\s*$"
)
_TOO_OLD = re.compile(r"UnsupportedClassVersionError|Unrecognized option: --|compiled by a more recent version")


class SparkRefused(ClientError):
    """Spark cannot be started, or cannot run our jobs, as things are."""


class Printed:
    """The last lines that Spark's process printed. A thread reads them, so that the process never waits."""

    def __init__(self, source: int) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._thread = threading.Thread(target=self._read, args=(source,), name="ottla-spark-lines", daemon=True)
        self._thread.start()

    def told(self) -> list[str]:
        """The lines that may say why something failed."""
        return [line for line in list(self._lines) if not _NOISE.match(line)]

    def ended(self) -> list[str]:
        """The same once the process has ended, which is waited for a moment."""
        self._thread.join(5)
        return self.told()

    def _read(self, source: int) -> None:
        with contextlib.suppress(OSError), open(source, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(_LONGEST_LINE):
                self._lines.append(line.rstrip("\n"))


_printed: list[Printed] = []
"""The lines of the one Java process that pyspark has in a process, where they are kept."""


def told() -> list[str]:
    """The kept lines of Spark's process that may say why something failed; none where they were shown."""
    return _printed[-1].told() if _printed else []


def launch(conf: SparkConf | None = None, *, quiet: bool) -> None:
    """Start Spark's Java process where there is none yet; with `quiet` its lines are kept for `told` and not shown.

    SparkRefused where there is no Java, or Spark does not start.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return
    check_java()
    if not quiet:
        try:
            SparkContext._ensure_initialized(conf=conf)
        except RuntimeError as fault:
            raise SparkRefused("Spark did not start; its own lines are above") from fault
        return
    source, sink = os.pipe()
    try:
        printed = Printed(source)
        gateway = launch_gateway(conf, {"stdout": sink, "stderr": sink})  # type: ignore[no-untyped-call]
    except RuntimeError as fault:
        os.close(sink)
        sink = -1
        raise SparkRefused(_why(printed.ended())) from fault
    finally:
        if sink >= 0:
            os.close(sink)
    SparkContext._ensure_initialized(gateway=gateway)
    _printed.append(printed)


def check_java() -> None:
    """SparkRefused where Spark would not find Java; it looks at JAVA_HOME first, then along the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise SparkRefused(f"JAVA_HOME is {home}, where there is no bin/java: correct it, or unset it")
    elif shutil.which("java") is None and not _has_environment_file():
        raise SparkRefused(NO_JAVA)


def _has_environment_file() -> bool:
    """True where Spark reads a spark-env.sh before it starts, which may name a Java."""
    folders = [os.environ.get("SPARK_CONF_DIR"), *(f"{home}/conf" for home in [os.environ.get("SPARK_HOME")] if home)]
    return any((Path(folder) / "spark-env.sh").exists() for folder in folders if folder)


def _why(lines: list[str]) -> str:
    if any("JAVA_HOME is not set" in line for line in lines):
        return NO_JAVA
    if any(_TOO_OLD.search(line) for line in lines):
        return f"Spark needs Java 17 or 21, and this Java is older: {INSTALL}"
    last = "; ".join(line.strip() for line in lines[-3:])
    return f"Spark did not start: {last or 'its process ended without a word'}"
