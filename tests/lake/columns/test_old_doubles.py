"""Lakes of earlier versions, whose columns became double over whole numbers that no double holds, can be read."""

import pytest
from tests.lake.driven_rounds import TOPIC, documents

from ottla import lake
from ottla.lake import LakeRefused

BIG = 9007199254740993


@pytest.fixture
def old_lake(memory_lake, monkeypatch):
    """A lake as a version made it that noted no large numbers and looked into no older files."""
    made = memory_lake("parquet")
    with monkeypatch.context() as earlier:
        for name in ("json_columns.in_table", "json_columns.in_value"):
            earlier.setattr(f"ottla.lake.columns.{name}", lambda *_: set())
        earlier.setattr("ottla.lake.rounds.publishing.becoming_double", lambda *_: [])
        made.load(*documents({"n": BIG, "m": [{"x": BIG}], "o": 1, "p": BIG}))
        made.load(*documents({"n": 0.5, "m": [{"x": 0.5}], "o": 0.5, "p": 7}))
    return made.place


def test_a_column_that_would_lose_digits_is_refused_by_name_with_the_way_out(old_lake):
    with pytest.raises(LakeRefused, match=r"column m of topic t became double, and .*parquet holds .* rounded=\['m'\]"):
        lake.rows(old_lake, TOPIC)
    with pytest.raises(LakeRefused, match=r"column n of .* rounded=\['n'\]"):
        lake.rows(old_lake, TOPIC, rounded=["m"])


def test_columns_that_are_named_are_read_as_the_nearest_doubles(old_lake):
    found = lake.rows(old_lake, TOPIC, rounded=["m", "n"]).read_all().sort_by("offset")
    assert found["n"].to_pylist() == [float(BIG - 1), 0.5]
    assert found["m"].to_pylist() == [[{"x": float(BIG - 1)}], [{"x": 0.5}]]
    assert found["p"].to_pylist() == [BIG, 7]


def test_a_name_of_no_column_is_refused_with_the_nearest_one(old_lake):
    with pytest.raises(LakeRefused, match=r"topic t has no column offest.*offset"):
        lake.rows(old_lake, TOPIC, rounded=["offest"])
