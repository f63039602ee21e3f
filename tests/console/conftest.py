"""One broker for all tests of the console, with a topic of orders."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla.client import Admin, Producer
from ottla.testing import TestBroker

ORDERS = 3_000


@pytest.fixture(scope="session")
def console_broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        with Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
            admin.create_topic("orders", 3)
            for at in range(ORDERS):
                name = "anna" if at % 1000 == 500 else "bo"
                value = json.dumps({"id": at, "amount": at % 100, "name": name})
                producer.produce("orders", value, f"k{at}", headers=[("trace", f"t{at}")], timestamp=1_000_000 + at)
        yield broker
