"""Apache Kafka's own tool makes a subscription here, and its consumer pushes what that asks for (KIP-714)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cluster_processes import until

from ottla.broker.measures import gather
from ottla.metrics.exposition import render
from ottla.testing import TestBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


def test_a_java_consumer_pushes_what_kafkas_tool_asked_for(kafka_libs: Path) -> None:
    java = ["java", "-cp", f"{kafka_libs}/*"]
    with TestBroker() as broker:
        server = ["--bootstrap-server", broker.bootstrap_servers]
        tool = [*java, "org.apache.kafka.tools.ClientMetricsCommand", *server]
        edits = ["--alter", "--name", "all", "--metrics", "*", "--interval", "300", "--match", "client_id=console-.*"]
        subprocess.run([*tool, *edits], check=True, capture_output=True, timeout=120)
        said = subprocess.run([*tool, "--describe"], check=True, capture_output=True, text=True, timeout=120).stdout
        assert "Client metrics configs for all are:" in said
        assert "interval.ms=300" in said
        reader = subprocess.Popen(
            [*java, "org.apache.kafka.tools.consumer.ConsoleConsumer", *server, "--topic", "t", "--group", "g"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            shown = 'client_software_name="apache-kafka-java'
            until(lambda: shown in broker.call(lambda: render(gather(broker._running().node))))
        finally:
            reader.kill()
            reader.wait()
        subprocess.run([*tool, "--delete", "--name", "all"], check=True, capture_output=True, timeout=120)
        left = subprocess.run([*tool, "--list"], check=True, capture_output=True, text=True, timeout=120).stdout
        assert "all" not in left
