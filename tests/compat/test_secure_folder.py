"""Apache Kafka's own tools by the files that `ottla secure init` makes for a user."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.java_tools import java
from tests.ports import free_port

from ottla.cli.main import main
from ottla.config.properties import parse_properties
from ottla.testing import TestBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


def test_kafkas_tools_write_and_read_by_the_file_of_a_user(kafka_libs: Path, tmp_path: Path) -> None:
    assert main(["secure", "init", "--dir", str(tmp_path), "--port", str(free_port())]) == 0
    user = tmp_path / "users" / "admin"
    client = str(user / "client.properties")
    address = parse_properties(Path(client).read_text())["bootstrap.servers"]
    with TestBroker(parse_properties((tmp_path / "server.properties").read_text())):
        at = ("--bootstrap-server", address, "--command-config", client)
        java(kafka_libs, "TopicCommand", "--create", "--topic", "t", *at)
        java(kafka_libs, "ConsoleProducer", *at, "--topic", "t", feed="by Java\n")
        store = tmp_path / "with-store.properties"
        store.write_text(
            "\n".join(line for line in Path(client).read_text().splitlines() if "truststore" not in line)
            + f"\nssl.truststore.location={user / 'truststore.p12'}\nssl.truststore.password=changeit\n"
        )
        read = ("--topic", "t", "--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
        said = java(
            kafka_libs, "consumer.ConsoleConsumer", "--bootstrap-server", address, "--command-config", str(store), *read
        )
        assert "by Java" in said
