"""The kit for plugins: it passes what is sound, and names each defect."""

import asyncio
import time
from contextlib import contextmanager

import pytest

from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.errors import ConnectException, DataException, RetriableException
from ottla.connect.plugins.base import RefusedRecords, SinkConnector, SinkTask, SourceConnector, SourceTask
from ottla.connect.records import SinkRecord, SourceRecord
from ottla.connect.testing import OtherSide, PluginFaults, check_sink, check_source, sink_records


class Numbers(SourceTask):
    """Counts to three; each subclass below has one defect."""

    most = 3

    async def start(self, offsets):
        kept = (await offsets.read([{}]))[0]
        self.at = self.begin(kept)

    def begin(self, kept):
        return kept["n"] + 1 if kept else 0

    async def read(self):
        await asyncio.sleep(0)
        if self.at >= self.most:
            await asyncio.Event().wait()
        n, self.at = self.at, self.at + 1
        return [SourceRecord("t", value=n, source_partition={}, source_offset=self.offset(n))]

    def offset(self, n):
        return {"n": n}


def source(task_class, **names):
    options = ConfigDef(*(Option(name, Type.STRING, None, doc=doc) for name, doc in names.items()))
    members = {
        "java_class": "Numbers", "version": "1", "options": classmethod(lambda cls: options),
        "task": classmethod(lambda cls, config: task_class()),
    }  # fmt: skip
    return type("Numbers", (SourceConnector,), members)


def said_of_source(task_class, side=lambda: OtherSide({}), patience_s=0.3, poison=0, **options):
    with pytest.raises(PluginFaults) as found:
        check_source(source(task_class, **options), side, records=3, patience_s=patience_s, poison=poison)
    return found.value.sentences


def test_a_sound_source_passes():
    assert [each.value for each in check_source(source(Numbers), lambda: OtherSide({}), records=3)] == [0, 1, 2]


def test_an_offset_that_lies_before_its_record_is_named():
    class Again(Numbers):
        def begin(self, kept):
            return kept["n"] if kept else 0

    assert any("the source gave 0 again: its offset must lie behind it" in each for each in said_of_source(Again))


def test_an_offset_that_lies_too_far_is_named():
    class Loses(Numbers):
        def begin(self, kept):
            return kept["n"] + 2 if kept else 0

    said = said_of_source(Loses)
    assert any("begun again behind record 1, the source gave 1 of 2 records and then waited" in each for each in said)


def test_an_offset_that_is_no_json_is_named():
    class Strange(Numbers):
        def offset(self, n):
            return {"n": n, "at": (n,)}

    assert any("the source_offset of record 1 is no object of JSON" in each for each in said_of_source(Strange))


def test_a_poisoned_record_that_comes_without_its_fault_is_named():
    assert any("0 records have a fault and 1 cannot be read" in each for each in said_of_source(Numbers, poison=1))


def test_a_read_that_holds_up_the_event_loop_is_named_with_its_line():
    blocks = [0.6]

    class Blocks(Numbers):
        async def read(self):
            if blocks:
                time.sleep(blocks.pop())
            return await super().read()

    said = said_of_source(Blocks, patience_s=0.2)
    assert any("stood still in" in each and "test_plugin_kit.py" in each for each in said)


def test_a_read_that_swallows_its_cancellation_is_named():
    class Deaf(Numbers):
        async def read(self):
            while True:
                try:
                    return await super().read()
                except asyncio.CancelledError:
                    await asyncio.sleep(1)

    assert "read() did not end when it was cancelled" in said_of_source(Deaf)


def test_a_close_that_fails_before_the_start_is_named():
    class Careless(Numbers):
        async def close(self):
            assert self.at >= 0

    assert any("close() of a task that was not started fails: AttributeError" in e for e in said_of_source(Careless))


def test_options_without_a_doc_and_secrets_that_would_be_shown_are_named():
    said = said_of_source(Numbers, url="", **{"api.token": "The token."})
    assert any(each.startswith("the option url has no doc") for each in said)
    assert any("the option api.token is a STRING: make it a PASSWORD" in each for each in said)


def test_a_fault_of_the_other_side_must_let_the_task_be_begun_again():
    broken = []

    class Fails(Numbers):
        async def read(self):
            if broken:
                raise ConnectException("it is gone")
            return await super().read()

    @contextmanager
    def trouble():
        broken.append(1)
        yield
        broken.clear()

    said = said_of_source(Fails, lambda: OtherSide({}, trouble=trouble))
    assert any("ConnectException: it is gone; raise RetriableException" in each for each in said)


class Table(SinkTask):
    """Keeps values in a list when it is flushed."""

    def __init__(self, rows):
        self.rows, self.waiting, self.offsets = rows, [], {}

    async def put(self, records):
        if bad := [each for each in records if each.value == "bad"]:
            raise RefusedRecords([(each, DataException("bad")) for each in bad])
        self.waiting += records

    async def flush(self):
        self.rows += [each.value for each in self.waiting]
        self.waiting = []


def sink(task_class):
    rows = []
    members = {
        "java_class": "Table", "version": "1", "options": classmethod(lambda cls: ConfigDef()),
        "task": classmethod(lambda cls, config: task_class(rows)),
    }  # fmt: skip

    def side():
        rows.clear()
        return OtherSide({}, lambda: rows)

    return type("Table", (SinkConnector,), members), side


def said_of_sink(task_class, **more):
    with pytest.raises(PluginFaults) as found:
        check_sink(*sink(task_class), sink_records(["a", "b", "c", "d"]), **more)
    return found.value.sentences


def test_a_sound_sink_passes():
    check_sink(*sink(Table), sink_records(["a", "b", "c", "d"]))


def test_a_sink_that_is_not_exactly_once_is_told_so():
    said = said_of_sink(Table, exactly_once=True)
    assert "after an end between flush and commit, 2 records are there more than once: 'a'" in said


def test_a_flush_that_leaves_records_behind_is_named():
    class Late(Table):
        async def flush(self):
            last, self.waiting = self.waiting[-1:], self.waiting[:-1]
            await super().flush()
            self.waiting = last

    assert "behind flush(), 1 of 4 records are missing on the other side: 'd'" in said_of_sink(Late)


def test_a_refusal_that_takes_the_whole_batch_along_is_named():
    said = said_of_sink(Table, poison=SinkRecord("t", 0, value="bad", offset=9))
    assert any("beside a refused record, 4 of 4 records are missing" in each for each in said)


def test_a_poisoned_record_that_fails_the_task_is_named():
    class Fails(Table):
        async def put(self, records):
            if any(each.value == "bad" for each in records):
                raise DataException("bad")
            await super().put(records)

    said = said_of_sink(Fails, poison=SinkRecord("t", 0, value="bad", offset=9))
    assert any("raise RefusedRecords, so that only this record becomes a dead letter" in each for each in said)


def test_a_failing_other_side_may_not_be_swallowed():
    broken = []

    class Swallows(Table):
        async def flush(self):
            if broken:
                self.waiting = []
            await super().flush()

    @contextmanager
    def trouble():
        broken.append(1)
        yield
        broken.clear()

    connector, side = sink(Swallows)
    with pytest.raises(PluginFaults, match=r"while the other side failed, behind flush.., 4 of 4 records are missing"):
        check_sink(connector, lambda: OtherSide({}, side().written, trouble), sink_records(["a", "b", "c", "d"]))


def test_a_retriable_failure_passes():
    broken = []

    class Says(Table):
        async def flush(self):
            if broken:
                raise RetriableException("later")
            await super().flush()

    @contextmanager
    def trouble():
        broken.append(1)
        yield
        broken.clear()

    connector, side = sink(Says)
    check_sink(connector, lambda: OtherSide({}, side().written, trouble), sink_records(["a", "b", "c", "d"]))
