"""Tools of Apache Kafka's own, each run as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOLS = "org.apache.kafka.tools."
_SOON = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
KAFKA_CLASSES, SPARK_CLASSES = Path(sys.prefix) / "kafka.jsa", Path(sys.prefix) / "spark.jsa"
"""The archives of classes that set-up makes (tools/kafka_archive.py, tools/spark_archive.py)."""


def _archived(classes: Path) -> tuple[str, ...]:
    """Options for classes from an archive: half of a short run's work is to load them.

    Java goes on without an archive that is missing or of other jars; it would only say so in its log.
    """
    return (*_SOON, f"-XX:SharedArchiveFile={classes}", "-Xlog:disable")


QUICK = ("-Xmx256m", *_archived(KAFKA_CLASSES))
"""Options of a Java runtime that is to start fast."""
QUICK_SPARK = " ".join(_archived(SPARK_CLASSES))
"""Options for a Java process of Spark, which ends before its compiler has paid."""


def java(libs: Path, main: str, *arguments: str, feed: str = "", timeout_s: float = 120) -> str:
    """Run a tool, named by its class within Kafka's tools or in full; return its stdout."""
    done = subprocess.run(
        ["java", *QUICK, "-cp", f"{libs}/*", main if "kafka." in main else TOOLS + main, *arguments],
        input=feed, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout
