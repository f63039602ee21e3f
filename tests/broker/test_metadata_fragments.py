"""The cache of encoded topics is bounded in bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.requests import metadata_fragments
from ottla.broker.requests.metadata_fragments import Fragments


def test_what_is_kept_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_fragments, "_MOST_FRAGMENT_BYTES", 1000)
    fragments = Fragments()
    metadata: Any = SimpleNamespace(is_live=lambda broker: True)
    answers = set()
    for number in range(100):
        topic: Any = SimpleNamespace(topic_id=bytes([number]) * 16, name=f"t{number:050}", version=1, partitions=())
        first = fragments.topic(metadata, topic, 12)
        assert fragments.topic(metadata, topic, 12) is first
        answers.add(first)
        assert fragments.kept_bytes <= 1000
        assert fragments.kept_bytes == sum(len(kept) for _, kept in fragments._kept.values())
    assert len(answers) == 100


def test_a_topic_that_changes_again_and_again_counts_once() -> None:
    fragments = Fragments()
    metadata: Any = SimpleNamespace(is_live=lambda broker: True)
    for version in range(10):
        topic: Any = SimpleNamespace(topic_id=bytes(16), name="t", version=version, partitions=())
        size = len(fragments.topic(metadata, topic, 12))
    assert fragments.kept_bytes == size
