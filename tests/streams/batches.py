"""Inputs and results of batches, for tests of the engine and of its state."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st

from ottla.streams.engine.task import Results
from ottla.streams.values import Input, Place

ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from("kj"), st.sampled_from(["1", "2", None]), st.integers(0, 50)
    ),
    max_size=20,
)  # fmt: skip


def inputs(rows: list[Any], topics: Collection[str]) -> list[Input]:
    """Rows as a source would hand them over, in the order of time."""
    rows = sorted((row for row in rows if row[0] in topics), key=lambda row: row[3])
    return [
        Input(Place(topic, 0, at), key.encode(), None if value is None else value.encode(), time)
        for at, (topic, key, value, time) in enumerate(rows)
    ]


def written(results: list[Results]) -> list[tuple[Any, ...]]:
    return [(o.topic, o.key, o.value, o.timestamp) for result in results for o in result.outputs]
