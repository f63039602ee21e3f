"""A real broker inside the test process: the pytest plugin (`kafka`, `kafka_topic`) and the class behind it.

from ottla.testing import TestBroker

with TestBroker() as broker:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from ottla.testing.broker import TestBroker

__all__ = ["TestBroker"]
