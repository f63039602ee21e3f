"""The same loads into every format on every store: widening, dead letters, interrupted rounds, and readers."""

import contextlib
import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killed_loader import Killed, killed

from ottla import lake
from ottla.records.reader import Record
from ottla.stores import open_store

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAY = 86_400_000
NEW_YEAR = 1_356_998_400_000
PLACES = [
    "parquet local",
    "parquet s3",
    "parquet az",
    "parquet hdfs",
    "delta local",
    "delta s3",
    "iceberg local",
    "iceberg s3",
]


class Lake:
    """One lake in one format on one store."""

    def __init__(self, place, request, tmp_path):
        self.format, where = place.split()
        if where == "local":
            self.url = (tmp_path / "lake").as_uri()
        else:
            self.url = request.getfixturevalue(f"{where}_url")
        self.options = {"format": self.format}
        if self.format == "iceberg":
            self.options["catalog"] = f"sqlite:///{tmp_path}/catalog.db"

    def read(self, topic):
        """Every visible row of a topic, read by other people's software."""
        if self.format == "delta":
            return pl.scan_delta(f"{self.url}/{topic}", storage_options=storage()).collect().to_arrow().to_pylist()
        if self.format == "iceberg":
            from pyiceberg.catalog import load_catalog

            catalog = load_catalog("ottla", uri=self.options["catalog"], warehouse=self.url, **iceberg_io())
            return catalog.load_table(("ottla", topic)).scan().to_arrow().to_pylist()
        store = open_store(self.url)
        names = [each.name for each in store.entries(f"topic={topic}/") if each.name.endswith(".parquet")]
        schema = lake.schema(self.url, topic)
        tables = [pq.read_table(store.open_input(name), partitioning=None) for name in names]
        padded = [pa.table({f.name: whole(table, f) for f in schema}) for table in tables]
        return pa.concat_tables(padded).to_pylist() if padded else []


def whole(table, field):
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    return table.column(field.name).cast(field.type)


def storage():
    import os

    if "AWS_ENDPOINT_URL" not in os.environ:
        return None
    return {"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"], "AWS_ALLOW_HTTP": "true"}


def iceberg_io():
    import os

    if "AWS_ENDPOINT_URL" not in os.environ:
        return {}
    return {
        "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "s3.region": os.environ["AWS_REGION"],
    }


@pytest.fixture(params=PLACES)
def place(request, tmp_path, spark):
    """A lake; Spark's workers get the store's address in their environment, as on their own machine."""
    import os

    made = Lake(request.param, request, tmp_path)
    environment = spark.sparkContext.environment
    before = dict(environment)
    names = ("AWS_", "AZURE_", "OTTLA_", "HADOOP_")
    environment.update({name: value for name, value in os.environ.items() if name.startswith(names)})
    yield made
    environment.clear()
    environment.update(before)


def fill(topics, topic, documents, *, first=0):
    for at, document in enumerate(documents, first):
        value = document if isinstance(document, bytes) else json.dumps(document).encode()
        topics.fill(topic, 0, [Record(0, NEW_YEAR + at * DAY, b"k", value)])


def test_every_record_is_there_once_after_widening_and_cuts(place, load, topics, monkeypatch):
    topic, dead = topics.new(), topics.new()

    def run(**more):
        return load(topic, to=place.url, json=True, dead_letter=dead, **place.options, **more)

    fill(topics, topic, [{"n": 1}, {"n": 2, "s": "x"}, b"poison"])
    assert run().rows == 2
    fill(topics, topic, [{"n": 3, "late": True}], first=3)
    for step in ("ottla.lake.rounds.loader.send_dead_letters", "ottla.lake.notes.state.LakeState.write_commit"):
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(step, killed)
            run()
    loaded = run()
    assert {str(each): offset for each, offset in loaded.committed.offsets.items()} == {f"{topic}-0": 4}
    fill(topics, topic, [{"n": 4.5}], first=4)
    run()
    found = sorted(place.read(topic), key=lambda row: row["offset"])
    assert [(row["offset"], row["n"], row["s"], row["late"]) for row in found] == [
        (0, 1.0, None, None),
        (1, 2.0, "x", None),
        (3, 3.0, None, True),
        (4, 4.5, None, None),
    ]
    assert [letter.value for letter in topics.read(dead)] == [b"poison"]
    assert run().rows == 0


def test_a_second_loader_is_refused_wherever_the_lake_lies(place, load, topics):
    topic = topics.new()
    fill(topics, topic, [{"n": 1}])
    hold = open_store(place.url).hold("process 1 on another machine")
    with pytest.raises(lake.LakeRefused, match=r"another loader .process 1 on another machine. is at work"):
        load(topic, to=place.url, json=True, **place.options)
    hold.release()
    assert load(topic, to=place.url, json=True, **place.options).rows == 1
