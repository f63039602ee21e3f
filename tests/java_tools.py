"""Tools of Apache Kafka's own, each run as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOLS = "org.apache.kafka.tools."
QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options of a Java runtime that is to start fast."""
SPARK_CLASSES = Path(sys.prefix) / "spark.jsa"
"""The archive of Spark's classes that set-up makes (tools/spark_archive.py)."""
QUICK_SPARK = " ".join((*QUICK[1:], f"-XX:SharedArchiveFile={SPARK_CLASSES}", "-Xlog:disable"))
"""Options for a Java process of Spark: it ends before its compiler has paid, and half of its work is to load classes.

Java goes on without an archive that is missing or of other jars; it would only say so in its log.
"""


def java(libs: Path, main: str, *arguments: str, feed: str = "", timeout_s: float = 120) -> str:
    """Run a tool, named by its class within Kafka's tools or in full; return its stdout."""
    done = subprocess.run(
        ["java", *QUICK, "-cp", f"{libs}/*", main if "kafka." in main else TOOLS + main, *arguments],
        input=feed, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout
