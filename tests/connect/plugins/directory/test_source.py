"""The directory source, without a broker."""

import asyncio
import gzip
import logging
import os

import pytest

from ottla.connect.claims import redeem
from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.plugins.directory.source import DirectorySourceConnector


class Kept:
    """The offsets that were kept, as a worker keeps them."""

    def __init__(self):
        self.offsets = {}

    async def read(self, partitions):
        return [self.offsets.get(each["file"]) for each in partitions]

    def keep(self, records):
        self.offsets |= {each.source_partition["file"]: each.source_offset for each in records}


class Watched:
    """A task at a directory, read until so many records came."""

    def __init__(self, path, **options):
        given = {name.replace("_", "."): value for name, value in options.items()}
        self.config = {"input.directory": str(path), "topic": "t", "poll.interval.ms": "1"} | given
        self.kept = Kept()

    def read(self, count, *, acknowledged=True):
        return asyncio.run(self._read(count, acknowledged))

    async def _read(self, count, acknowledged):
        task = DirectorySourceConnector.task(self.config)
        await task.start(self.kept)
        found = []
        async with asyncio.timeout(60):
            while len(found) < count:
                found += await task.read()
        if acknowledged:
            self.kept.keep(found)
            await task.commit([(each.source_partition, each.source_offset) for each in found])
        await task.close()
        return found

    async def settled(self, reached):
        """Let the task read, and see no record, until something is reached."""
        task = DirectorySourceConnector.task(self.config)
        await task.start(self.kept)
        reading = asyncio.ensure_future(task.read())
        async with asyncio.timeout(60):
            while not reached():
                assert not reading.done(), reading.result()
                await asyncio.sleep(0.002)
        reading.cancel()
        await asyncio.wait([reading])
        await task.close()


def values(records):
    return [each.value for each in records]


def test_files_are_read_by_name_and_their_last_record_says_that_they_are_done(tmp_path):
    (tmp_path / "b.txt").write_text("three\n")
    (tmp_path / "a.txt").write_text("one\ntwo")
    found = Watched(tmp_path).read(3)
    assert values(found) == ["one", "two", "three"]
    assert [each.source_offset["done"] for each in found] == [False, True, True]
    assert [each.headers[0].value for each in found] == ["a.txt", "a.txt", "b.txt"]


def test_files_are_read_by_time_if_the_order_says_so(tmp_path):
    for at, name in enumerate(("z", "a")):
        (tmp_path / name).write_text(f"{name}\n")
        os.utime(tmp_path / name, (at, at))
    assert values(Watched(tmp_path, order="time").read(2)) == ["z", "a"]


def test_a_restart_goes_on_behind_the_last_record_that_was_kept(tmp_path):
    (tmp_path / "a").write_text("1\n2\n3\n")
    watched = Watched(tmp_path, batch_size="2")
    assert values(watched.read(2)) == ["1", "2"]
    assert values(watched.read(1)) == ["3"]
    (tmp_path / "b").write_text("4\n")
    assert values(watched.read(1)) == ["4"]


def test_records_that_were_not_acknowledged_are_read_again(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    watched = Watched(tmp_path, after="delete")
    watched.read(2, acknowledged=False)
    assert (tmp_path / "a").exists()
    assert values(watched.read(2)) == ["1", "2"]
    assert not (tmp_path / "a").exists()


def test_a_file_that_is_in_kafka_is_cleared_away_after_a_restart_without_being_read_again(tmp_path):
    (tmp_path / "a").write_text("1\n")
    watched = Watched(tmp_path, after="delete")
    watched.kept.keep(watched.read(1, acknowledged=False))
    asyncio.run(watched.settled(lambda: not (tmp_path / "a").exists()))


def test_an_archived_file_takes_no_other_ones_name(tmp_path):
    watched = Watched(tmp_path, after="archive", archive_directory=str(tmp_path / "old"), input_pattern="**/*")
    for content in ("first", "second"):
        (tmp_path / "a").write_text(content)
        watched.read(1)
    assert {each.name: each.read_text() for each in (tmp_path / "old").iterdir()} == {"a": "first", "a.1": "second"}


def test_a_file_that_changed_after_it_was_read_is_not_removed_and_is_read_again(tmp_path, caplog):
    (tmp_path / "a").write_text("1\n")
    watched = Watched(tmp_path, after="delete")
    watched.kept.keep(watched.read(1, acknowledged=False))
    (tmp_path / "a").write_text("1\n2\n")
    assert values(watched.read(2)) == ["1", "2"]
    assert "has changed since it was read" in caplog.text


def test_a_marked_file_is_read_once_its_marker_is_there_and_both_are_removed(tmp_path):
    (tmp_path / "a").write_text("no\n")
    (tmp_path / "b").write_text("yes\n")
    (tmp_path / "b.done").touch()
    assert values(Watched(tmp_path, done_marker=".done", after="delete").read(1)) == ["yes"]
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_an_empty_file_is_cleared_away(tmp_path):
    (tmp_path / "a").touch()
    asyncio.run(Watched(tmp_path, after="delete").settled(lambda: not (tmp_path / "a").exists()))


def test_a_damaged_file_gives_what_can_be_read_and_is_named_once_and_left(tmp_path, caplog):
    lines = [f"line {number}" for number in range(20_000)]
    (tmp_path / "a.gz").write_bytes(gzip.compress("\n".join([*lines, ""]).encode())[:-4])
    (tmp_path / "b").write_text("2\n")
    found = Watched(tmp_path, after="delete").read(20_001)
    assert values(found) == [*lines, "2"]
    assert not any(each.source_offset["done"] for each in found[:-1])
    assert [each.name for each in tmp_path.iterdir()] == ["a.gz"]
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1
    assert "ends early" in caplog.text


def test_rows_of_csv_are_structs_and_a_bad_row_is_a_fault_between_its_neighbours(tmp_path):
    (tmp_path / "a.csv").write_text('id,name\n1,"a\nb"\n2\n3,c\n')
    first, bad, last = Watched(tmp_path, format="csv").read(3)
    assert (first.value.values, last.value.values) == (["1", "a\nb"], ["3", "c"])
    assert bad.value == "2\n"
    assert "line 4 has 1 field, and the header line has 2" in str(bad.fault)
    assert last.source_offset["position"] == 3


def test_a_csv_file_that_is_not_text_is_left_at_its_bad_line(tmp_path, caplog):
    (tmp_path / "a.csv").write_bytes(b"id\n1\n\xff\n2\n")
    (tmp_path / "b.csv").write_text("id\n3\n")
    assert [each.value.values for each in Watched(tmp_path, format="csv").read(2)] == [["1"], ["3"]]
    assert "line 3 is not text in UTF-8" in caplog.text


def test_json_lines_are_objects_and_a_number_that_a_double_cannot_hold_is_refused(tmp_path):
    (tmp_path / "a").write_text('{"a": 0.1}\n\nno\n{"a": 0.12345678901234567890}\n')
    good, bad, long = Watched(tmp_path, format="jsonl").read(3)
    assert good.value == {"a": 0.1}
    assert bad.value == b"no"
    assert "line 3 is not a JSON object" in str(bad.fault)
    assert "more digits than a double" in str(long.fault)


def test_a_line_that_is_not_utf_8_is_a_fault(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\nok\n")
    bad, good = Watched(tmp_path).read(2)
    assert (bad.value, good.value) == (b"\xff", "ok")
    assert "line 1 is not UTF-8" in str(bad.fault)


def test_a_whole_file_is_its_bytes_and_a_larger_one_is_left(tmp_path, caplog):
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"\0\xff")
    assert values(Watched(tmp_path, format="whole", whole_max_bytes="4").read(1)) == [b"\0\xff"]
    assert "a has 5 bytes, more than whole.max.bytes=4" in caplog.text


def test_rows_of_parquet_are_objects(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"id": [1, 2], "raw": [b"a", None]}), tmp_path / "a.parquet")
    found = Watched(tmp_path, format="parquet").read(2)
    assert values(found) == [{"id": 1, "raw": "YQ=="}, {"id": 2, "raw": None}]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"after": "archive"}, "go together"),
        ({"archive_directory": "/x"}, "go together"),
        ({"after": "archive", "archive_directory": "."}, "it is input.directory"),
        ({"input_pattern": "../*"}, "relative to input.directory"),
        ({"csv_delimiter": ";;"}, "one character"),
        ({"format": "xml"}, "must be one of: lines, jsonl, csv"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, monkeypatch, options, why):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigException, match=why):
        DirectorySourceConnector.tasks(Watched(tmp_path, **options).config, 1)


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RetriableException, match=r"input.directory cannot be read: .*/no"):
        Watched(tmp_path / "no").read(1)


def test_a_file_whose_offset_counts_all_its_items_is_cleared_away(tmp_path):
    (tmp_path / "a").write_text("1\n")
    watched = Watched(tmp_path, after="delete")
    watched.kept.offsets["a"] = {"position": 1}
    asyncio.run(watched.settled(lambda: not (tmp_path / "a").exists()))


@pytest.mark.parametrize(
    ("partition", "offset"),
    [({"filename": "a"}, None), ({"file": "a"}, {"position": -1}), ({"file": "a"}, {"position": 1, "posit": 1}),
     ({"file": "a"}, {"done": True}), ({"file": "a"}, {"position": 1, "done": 1})],
)  # fmt: skip
def test_offsets_that_no_file_could_begin_at_are_refused(partition, offset):
    with pytest.raises(ConfigException):
        DirectorySourceConnector.check_offsets({}, [(partition, offset)])


def test_messages_of_a_mail_directory_are_records_with_their_attachments_in_a_store(tmp_path):
    new, store = tmp_path / "new", tmp_path / "store"
    new.mkdir()
    (new / "1.M1.host").write_bytes(
        b"Message-ID: <1@x>\nSubject: bill\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b\n"
        b"Content-Disposition: attachment; filename=a.bin\nContent-Type: application/octet-stream\n\nbig\n--b--\n"
    )
    (new / "2.M2.host").write_bytes(b"no message")
    options = {"format": "mail", "claim_store": str(store), "mail_attachments": "records", "after": "archive"}
    message, attachment, bad = Watched(new, **options, archive_directory=str(tmp_path / "cur")).read(3)
    assert (message.key, message.value["subject"], message.value["text"]) == ("<1@x>", "bill", "hello")
    assert redeem(attachment.value, str(store)) == b"big"
    assert (bad.value, "it has no header" in str(bad.fault)) == (b"no message", True)
    assert sorted(os.listdir(tmp_path / "cur")) == ["1.M1.host", "2.M2.host"]


def test_whole_files_may_lie_in_a_store(tmp_path):
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a").write_bytes(b"\0big")
    [record] = Watched(inside, format="whole", claim_store=str(tmp_path / "store")).read(1)
    assert redeem(record.value, str(tmp_path / "store")) == b"\0big"


def test_a_store_is_for_big_contents_alone(tmp_path):
    with pytest.raises(ConfigException, match=r"claim\.store is for format=whole and format=mail"):
        Watched(tmp_path, claim_store=str(tmp_path)).read(1)


async def first_read(path, **options):
    task = DirectorySourceConnector.task(
        {"input.directory": str(path), "topic": "t", "poll.interval.ms": "1"} | options
    )
    await task.start(Kept())
    async with asyncio.timeout(60):
        found = await task.read()
    await task.close()
    return values(found)


def test_one_read_takes_small_files_together_up_to_the_size_of_a_batch(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"{number}a\n{number}b\n")
    assert asyncio.run(first_read(tmp_path)) == [f"{number}{part}" for number in range(5) for part in "ab"]
    assert asyncio.run(first_read(tmp_path, **{"batch.size": "3"})) == ["0a", "0b", "1a"]


def test_one_read_takes_no_further_file_behind_many_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * (1 << 20))
    (tmp_path / "b").write_bytes(b"y")
    assert [len(each) for each in asyncio.run(first_read(tmp_path, format="whole"))] == [1 << 20]
