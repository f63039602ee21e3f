"""Kafka Streams 4.3.1 counts words with `exactly_once_v2`, through kill -9 of the application."""

from __future__ import annotations

from pathlib import Path

from word_count import MARKS, WordCount

pytestmark = MARKS


def test_kafka_streams_counts_words_right_through_kills_of_the_application(
    bootstrap: str, name: str, tmp_path: Path
) -> None:
    application = WordCount(bootstrap, name, tmp_path)
    application.counts_right({8: application.dies, 20: application.dies, 32: application.dies})
