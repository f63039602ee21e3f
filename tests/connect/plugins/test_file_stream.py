"""The connectors for files, without a broker."""

import asyncio
import os

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from ottla.connect.records import SinkRecord


class Kept:
    def __init__(self, offset):
        self.offset = offset

    async def read(self, partitions):
        return [self.offset for _ in partitions]


def source(path):
    return FileStreamSourceConnector.task({"file": str(path), "topic": "t"})


async def begun(path, offset=None):
    task = source(path)
    await task.start(Kept(offset))
    return task


def content(records):
    return [(record.value, record.source_offset["position"]) for record in records]


def test_a_line_is_a_record_with_the_bytes_through_its_end_as_offset(tmp_path):
    path = tmp_path / "in"
    path.write_text("Grüße\nzwei\nhalb")

    async def story():
        task = await begun(path)
        found = await task.read()
        await task.close()
        return found

    found = asyncio.run(story())
    assert content(found) == [("Grüße", 8), ("zwei", 13)]
    assert found[0].source_partition == {"filename": str(path)}


def test_a_task_goes_on_at_the_byte_that_was_kept(tmp_path):
    path = tmp_path / "in"
    path.write_text("Grüße\nzwei\n")

    async def story():
        task = await begun(path, {"position": 8})
        found = await task.read()
        await task.close()
        return found

    assert content(asyncio.run(story())) == [("zwei", 13)]


def test_a_file_in_the_place_of_another_is_read_from_its_beginning_after_the_rest_of_the_other(tmp_path):
    path = tmp_path / "in"
    path.write_text("one\nhalf")

    async def story():
        task = await begun(path)
        found = [await task.read()]
        os.rename(path, tmp_path / "in.1")
        path.write_text("new\n")
        found += [await task.read(), await task.read()]
        await task.close()
        return [content(each) for each in found]

    assert asyncio.run(story()) == [[("one", 4)], [("half", 8)], [("new", 4)]]


def test_a_file_that_was_cut_is_read_whole_with_a_warning(tmp_path, caplog):
    path = tmp_path / "in"
    path.write_text("new\n")

    async def story():
        task = await begun(path, {"position": 100})
        found = await task.read()
        await task.close()
        return found

    assert content(asyncio.run(story())) == [("new", 4)]
    assert "it was made anew" in caplog.text


def test_a_missing_file_is_waited_for_with_a_warning(tmp_path, caplog):
    path = tmp_path / "in"

    async def story():
        task = await begun(path)
        reading = asyncio.ensure_future(task.read())
        while "waiting for it" not in caplog.text:
            await asyncio.sleep(0)
        path.write_text("one\n")
        found = await reading
        await task.close()
        return found

    assert content(asyncio.run(story())) == [("one", 4)]


def test_bytes_that_are_no_text_are_replaced_with_a_warning(tmp_path, caplog):
    path = tmp_path / "in"
    path.write_bytes(b"a\xffb\n")

    async def story():
        task = await begun(path)
        found = await task.read()
        await task.close()
        return found

    assert content(asyncio.run(story())) == [("a\ufffdb", 4)]
    assert "is not UTF-8" in caplog.text


@pytest.mark.parametrize("offset", [{"position": -1}, {"position": "x"}, {}, {"position": True}])
def test_an_offset_that_is_no_position_is_refused(tmp_path, offset):
    with pytest.raises(ConfigException, match="is a number of bytes"):
        asyncio.run(begun(tmp_path / "in", offset))


def test_the_sink_appends_values_as_lines(tmp_path):
    path = tmp_path / "out"
    path.write_text("before\n")

    async def story():
        task = FileStreamSinkConnector.task({"file": str(path)})
        await task.put([SinkRecord("t", 0, value=value) for value in ("a", None, {"b": 1})])
        await task.flush()
        await task.close()

    asyncio.run(story())
    assert path.read_text() == "before\na\nnull\n{b=1}\n"
