"""Tools of Apache Kafka's own, each run as a process."""

from __future__ import annotations

import subprocess
from pathlib import Path

TOOLS = "org.apache.kafka.tools."
QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options of a Java runtime that is to start fast."""


def java(libs: Path, main: str, *arguments: str, feed: str = "", timeout_s: float = 120) -> str:
    """Run a tool, named by its class within Kafka's tools or in full; return its stdout."""
    done = subprocess.run(
        ["java", *QUICK, "-cp", f"{libs}/*", main if "kafka." in main else TOOLS + main, *arguments],
        input=feed, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout
