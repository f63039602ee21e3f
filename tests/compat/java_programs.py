"""Kafka's tools, and programs on the Java clients that run beside a test, are killed by it, and start again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import reaching
from apache_kafka import jars_folder
from tests import java_tools
from tests.java_tools import QUICK

HERE = Path(__file__).parent


def java(main: str, *arguments: str, feed: str = "") -> str:
    """Run one of Kafka's tools with the login of the brokers under test, if they ask for one; return its stdout."""
    return java_tools.java(jars_folder(), main, *reaching.java_tool(arguments), feed=feed)


def properties_text(options: Mapping[str, object]) -> str:
    """The text of a properties file."""
    lines = [(name, str(value).replace("\n", "\\n")) for name, value in options.items()]
    return "".join(f"{name}={value}\n" for name, value in lines)


class JavaProgram:
    """A context manager that kills the program at the end if it still runs; `start` may be called again."""

    def __init__(self, class_path: str, command: Sequence[str], log: Path) -> None:
        self._command = ["java", *QUICK, "-cp", class_path, *command]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> JavaProgram:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, within_s: float = 60) -> None:
        """Stop it by SIGTERM, so that the program closes its clients."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(within_s)

    def last_words(self) -> str:
        """The end of its output, with its exit status if it has ended."""
        assert self._process is not None
        ended = "" if self._process.poll() is None else f"ended with {self._process.returncode}: "
        return ended + self._log.read_text(errors="replace")[-3000:]


def compiled(source: str, libs: Path, folder: Path) -> str:
    """The class path of a program of the folder `java`."""
    class_path = f"{libs}/*"
    subprocess.run(
        ["javac", "-cp", class_path, "-d", str(folder), str(HERE / "java" / source)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return f"{folder}:{class_path}"
