"""Writes an archive of the classes that Apache Kafka's tools load, which Java maps: `kafka_archive.py JARS FILE`.

A tool of the tests takes half of its processor time with it (-XX:SharedArchiveFile). One that administers, produces
and consumes archives what it has loaded when it ends.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.testing import TestBroker

PATIENCE_S = 300
TOOL = "org.apache.kafka.tools.EndToEndLatency"


def main(jars: Path, file: Path) -> None:
    made = file.with_suffix(".part")
    made.unlink(missing_ok=True)
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"]
    with TestBroker() as broker:
        asked = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--num-records", "10"]
        asked += ["--producer-acks", "all", "--record-size", "100"]
        subprocess.run(["java", *quick, "-cp", f"{jars}/*", TOOL, *asked], check=True, timeout=PATIENCE_S)
    made.rename(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]))
