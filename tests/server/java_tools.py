"""Tools of Apache Kafka's own, each run as a process."""

from __future__ import annotations

import subprocess
from pathlib import Path

TOOLS = "org.apache.kafka.tools."


def java(libs: Path, main: str, *arguments: str) -> str:
    """Run a tool; return its stdout."""
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    done = subprocess.run(
        ["java", *options, "-cp", f"{libs}/*", TOOLS + main, *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout
