"""A small version of `make lake-campaign`, and tests that its verdict finds differences."""

import random
from types import SimpleNamespace

import pytest
from tests.lake.campaign import verdict
from tests.lake.campaign.meaning import meaning
from tests.lake.campaign.places import ParquetHdfs, ParquetLocal
from tests.lake.campaign.producing import Acknowledged
from tests.lake.campaign.run import Campaign, Scale
from tests.lake.campaign.watcher import Watcher


@pytest.mark.spark
@pytest.mark.slow
def test_a_lake_is_equal_to_its_topics_after_kills(tmp_path):
    told: list[str] = []
    scale = Scale(rows=3_000, kills=2, seed=5, places=("parquet-local",), values=("json",))
    ended = Campaign(scale, tmp_path, told.append).run()
    assert ended.differences == [], "\n".join(told)
    outcome = ended.outcomes[0]
    assert sum(outcome.siege.done.values()) == 2
    assert outcome.looks and outcome.verdict.dead
    assert outcome.verdict.rows + outcome.verdict.dead == 3_000


def acknowledged(*records):
    told = Acknowledged()
    for offset, sense in records:
        told.add(offset, sense, 0, poison=sense == 0)
    return told


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([(0, 7)], "1 rows are missing, first offsets [1]"),
        ([(0, 7), (1, 8), (1, 8)], "1 rows are there more than once"),
        ([(0, 7), (1, 9)], "1 rows mean something else, first offsets [1]"),
        ([(0, 7), (1, 8), (2, 1)], "1 rows should not be there, first offsets [2]"),
    ],
)
def test_a_row_that_is_missing_or_other_or_twice_is_a_difference(rows, what):
    told = acknowledged((0, 7), (1, 8), (2, 0))
    assert verdict._row_differences("t-0", rows, told) == [f"t-0: {what}"]
    assert verdict._row_differences("t-0", [(0, 7), (1, 8)], told) == []


def test_types_that_widened_and_fields_that_are_missing_mean_the_same():
    narrow = meaning(b"k", 5, {"n": 1, "o": {"a": 2}})
    assert narrow == meaning(b"k", 5, {"n": 1.0, "o": {"a": 2.0, "b": None}, "late": None, "list": []})
    others = [(b"j", 5, {"n": 1}), (b"k", 6, {"n": 1}), (b"k", 5, {"n": 1.5}), (b"k", 5, {"m": 1}), (b"k", 5, None)]
    assert len({meaning(*each) for each in [*others, (b"k", 5, {"n": 1})]}) == 6


class Files(SimpleNamespace):
    def visible(self, _kind):
        return list(self.files)

    def content(self, _kind, name):
        return self.files[name]


def parquet(*offsets):
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table({"partition": [0] * len(offsets), "offset": list(offsets)}), out)
    return out.getvalue()


def test_the_watcher_sees_a_row_in_two_files_and_a_file_that_goes():
    files = {"topic=t/1.parquet": parquet(0, 1)}
    watcher = Watcher(Files(files=files), "json", random.Random(1))
    watcher.look()
    assert watcher.faults == []
    files["topic=t/2.parquet"] = parquet(1, 2)
    watcher.look()
    del files["topic=t/1.parquet"]
    watcher.look()
    assert watcher.faults == [
        "topic=t/2.parquet: t-0: also in another file: [1]",
        "topic=t/1.parquet was visible and is gone",
    ]


def test_a_folder_that_goes_while_a_lake_on_hdfs_is_listed_hides_no_file():
    class OfNameNode:
        """The first listing comes upon a folder that a loader has just removed."""

        lists = 0

        def list_status(self, folder, _recursive):
            self.lists += 1
            if self.lists == 1:
                raise FileNotFoundError(f"{folder}/_ottla/tmp")
            return iter([SimpleNamespace(path=f"{folder}/topic=t/1.parquet", isdir=False)])

        def get_file_info(self, folder):
            if folder != "/lakes/json":
                raise FileNotFoundError(folder)

    place = ParquetHdfs.__new__(ParquetHdfs)
    place._client = OfNameNode()
    assert place.names("json") == ["topic=t/1.parquet"]
    place._client = OfNameNode()
    assert place.names("bytes") == []


def test_names_that_readers_pass_over_are_not_visible(tmp_path):
    place = ParquetLocal(tmp_path)
    for name in ("_ottla/tmp/1.parquet", "topic=t/.1.parquet", "topic=t/_schema.json", "topic=t/date=d/1.parquet"):
        path = place.folder / "json" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(parquet(0))
    assert place.visible("json") == ["topic=t/date=d/1.parquet"]
