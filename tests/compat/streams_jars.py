"""The jars of Kafka Streams and of Connect's connectors for files, which `tools/setup.sh streams-jars` fetches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def streams_jars() -> Path:
    return Path(os.environ.get("OTTLA_STREAMS_JARS", str(ROOT / ".cache" / "streams" / "libs")))


needs_streams_jars = pytest.mark.skipif(
    not list(streams_jars().glob("kafka-streams-*.jar")), reason="Apache Kafka's jars are not here: those of Streams"
)
