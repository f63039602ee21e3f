"""The registry on Apache Kafka: of several writers only one succeeds there too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.compat.apache_kafka import ApacheKafka
from tests.registry.concurrent_writers import Writers, a_stale_append, check_ids, free_of_rules
from tests.registry.registry_process import RegistryProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def kafka(kafka_libs: object) -> Iterator[str]:
    with ApacheKafka() as node:
        yield node.bootstrap


def test_concurrent_instances_agree_on_ids(kafka: str) -> None:
    with RegistryProcess(kafka, "_schemas") as one, RegistryProcess(kafka, "_schemas") as two:
        free_of_rules(one.url)
        writers = Writers(lambda: [one.url, two.url], schemas=20, threads=4)
        writers.run()
    ids = check_ids(kafka, "_schemas")
    assert {text: {number} for text, number in ids.items()} == dict(writers.told)
    assert sorted(ids.values()) == list(range(1, 21))


def test_a_writer_that_stood_still_is_refused(kafka: str) -> None:
    asyncio.run(a_stale_append(kafka, "_schemas-stale"))
    assert sorted(check_ids(kafka, "_schemas-stale").values()) == [1, 2, 3, 4, 5]
