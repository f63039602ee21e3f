"""Brokers that speak TLS to one another, on a listener that asks everybody else for a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_processes import OttlaCluster
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from processes import as_options
from tests.access.certificates import authority

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="secret";'


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])
def test_replicas_are_fetched_and_leaders_replaced_over_tls(tmp_path: Path, protocol: str) -> None:
    signer = authority()
    (tmp_path / "ca.pem").write_text(signer.certificate_pem)
    options = {
        "listeners": "PLAINTEXT://127.0.0.1:0,IN://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,IN:{protocol}",
        "inter.broker.listener.name": "IN",
        "ssl.keystore.location": signer.sign("broker").file(tmp_path),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.in.plain.sasl.jaas.config": JAAS,
        "listener.name.in.ssl.client.auth": "required",
    }
    with OttlaCluster(tmp_path, 3, *as_options(options)) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 3, 3, config={"min.insync.replicas": "2"})])["t"].result(60)
        producer, errors = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}), []
        for number in range(2000):
            producer.produce("t", str(number), on_delivery=lambda error, _: errors.append(error))
            if number == 1000:
                producer.flush(60)
                cluster.kill(2)
        assert producer.flush(120) == 0
        assert [error for error in errors if error is not None] == []
        consumer = Consumer({"bootstrap.servers": cluster.address(1), "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found = set()
        while len(found) < 2000:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            found.add(message.value())
        consumer.close()
