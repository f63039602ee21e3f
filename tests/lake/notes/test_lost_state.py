"""After a lake's `_ottla` folder is lost, rows that are there already are not loaded again."""

import shutil

import pytest
from deltalake import DeltaTable

from ottla import lake
from ottla.lake.readers import topic_schema
from ottla.records.reader import Record

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("beginning", ["earliest", "2023-01-01"])
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_rows_without_a_state_are_not_loaded_again(load, topics, tmp_path, format, beginning):
    topic = topics.new()
    for _ in range(2):
        topics.count(topic, 0, 3)
        load(topic, format=format)
    shutil.rmtree(tmp_path / "lake" / "_ottla")
    for _ in range(2):
        with pytest.raises(lake.LakeRefused, match="of which the lake's state knows nothing"):
            load(topic, format=format, beginning=beginning)


def test_a_topic_that_was_not_named_when_the_lake_was_resumed_is_not_loaded_twice(load, topics, tmp_path):
    one, two = topics.new(), topics.new()
    for topic in (one, two):
        topics.count(topic, 0, 3)
    load(one, two, format="delta")
    shutil.rmtree(tmp_path / "lake" / "_ottla")
    load(one, format="delta", resume_from_table=True)
    with pytest.raises(lake.LakeRefused, match=f"the table of {two} .* name all topics"):
        load(one, two, format="delta")
    shutil.rmtree(tmp_path / "lake" / "_ottla")
    topics.count(two, 0, 1)
    assert load(one, two, format="delta", resume_from_table=True).rows == 1
    assert DeltaTable(tmp_path / "lake" / two).to_pyarrow_table().num_rows == 4


def test_columns_of_files_that_were_all_removed_are_forgotten(load, topics, tmp_path):
    topic = topics.new()
    for value in (b'{"a":1}', b'{"b":2}'):
        topics.fill(topic, 0, [Record(0, 1_356_998_400_000, None, value)])
        load(topic, json=True)
    shutil.rmtree(tmp_path / "lake" / "_ottla")
    for file in (tmp_path / "lake").glob("**/*.parquet"):
        file.unlink()
    assert load(topic, json=True).rows == 2
    assert [first for first, _ in topic_schema(tmp_path / "lake", topic).versions] == [0]
