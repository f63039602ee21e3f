"""Kafka's own TopologyTestDriver in a Java process that answers line by line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIBS = Path(os.environ.get("OTTLA_STREAMS_JARS", Path(__file__).resolve().parents[2] / ".cache" / "streams" / "libs"))
MISSING = not (LIBS / "kafka-streams-test-utils-4.3.1.jar").exists() or not shutil.which("javac")
Row = tuple[str, str | None, str | None, int]


class Refused(Exception):
    """A topology is not built or run."""


class Oracle:
    """Kafka's test driver in a Java process that answers line by line."""

    def __init__(self, folder: Path, *, heap: str = "256m") -> None:
        sources = [Path(__file__).with_name(name) for name in ("StreamsOracle.java", "StreamsPrograms.java")]
        subprocess.run(["javac", "-nowarn", "-cp", f"{LIBS}/*", "-d", folder, *sources], check=True)
        quick = (f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        self._process = subprocess.Popen(
            ["java", *quick, "-cp", f"{folder}:{LIBS}/*", "StreamsOracle"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
        )  # fmt: skip

    def ask(self, topology: Any, rows: Sequence[Row]) -> Any:
        """The text of a topology (a name, or the steps that make it), and the records that it wrote."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"topology": topology, "input": rows}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise Refused(f"Kafka: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
