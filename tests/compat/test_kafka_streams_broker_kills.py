"""Kafka Streams 4.3.1 counts words with `exactly_once_v2`, through kill -9 of broker and application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import OttlaProcess
from word_count import MARKS, WordCount

pytestmark = MARKS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OttlaProcess]:
    settings = ["offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3"]
    process = OttlaProcess(tmp_path / "data", *(word for each in settings for word in ("--set", each))).start()
    yield process
    assert process.stop() == 0


def test_kafka_streams_counts_words_right_through_kills_of_the_broker(broker: OttlaProcess, tmp_path: Path) -> None:
    application = WordCount(broker.address, "words", tmp_path)

    def broker_dies() -> None:
        broker.kill()
        broker.start()

    application.counts_right({8: application.dies, 16: broker_dies, 24: broker_dies, 32: application.dies})
