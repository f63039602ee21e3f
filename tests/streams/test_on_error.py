"""Records that fail: skipped, kept as dead letters, or the end of the run, by stage."""

from __future__ import annotations

import pytest

from ottla.jobs.letters import read_letter
from ottla.streams import INT64, TEXT, Choice, OnError, ProcessingError, StreamsBuilder, TopologyError, TopologyTest
from ottla.streams.layout import layout
from ottla.streams.letters import choices, letter
from ottla.streams.on_error import chosen


def ninth() -> StreamsBuilder:
    builder = StreamsBuilder()
    lines = builder.stream("lines", value=TEXT)
    lines.map_values(lambda line: line[9], value=TEXT, name="ninth").to("ninths")
    lines.map_values(len, name="long").to("lengths", value=INT64)
    return builder


def test_a_skipped_record_goes_no_further_from_the_node_that_failed_and_the_next_one_is_processed() -> None:
    test = TopologyTest(ninth().build(), on_error="skip")
    for line in ("short", "long enough"):
        test.pipe_input("lines", None, line, 7)
    assert test.read_records("ninths") == [(None, "g")]
    assert test.read_records("lengths") == [(None, 5), (None, 11)]
    (fault,) = test.faults
    assert (fault.stage, fault.node, fault.exception, fault.letter) == ("processing", "ninth", "IndexError", False)
    assert fault.reason.startswith("ninth failed for the record at lines-0@0: IndexError")


def test_each_stage_has_its_choice() -> None:
    builder = StreamsBuilder()
    builder.stream("numbers", value=INT64, name="read").map_values(lambda n: 1 / n, name="inverse").to(
        "inverses", value=INT64, name="write"
    )
    test = TopologyTest(builder.build(), on_error="deserialization=skip,production=dead-letter")
    test._task.feed(_input(b"not eight bytes", 0), _input(INT64.write(4), 1))
    test._take()
    assert [(fault.stage, fault.node, fault.letter) for fault in test.faults] == [
        ("deserialization", "read", False),
        ("production", "write", True),
    ]
    assert test.faults[1].reason.startswith("write cannot write to inverses for the record at numbers-0@1: ")
    with pytest.raises(ProcessingError, match="inverse failed for the record at numbers-0@0: ZeroDivisionError"):
        test.pipe_input("numbers", None, 0, 0)


def _input(value: bytes, offset: int):  # type: ignore[no-untyped-def]
    from ottla.streams.values import Input, Place

    return Input(Place("numbers", 0, offset), None, value, 5)


def test_a_timestamp_extractor_and_a_punctuation_that_fail_are_failures_of_processing() -> None:
    class Ticks:
        def init(self, context):  # type: ignore[no-untyped-def]
            context.schedule(10, lambda _: {}["gone"], clock="wall")

        def process(self, record):  # type: ignore[no-untyped-def]
            pass

    builder = StreamsBuilder()
    builder.stream("a", name="timed", timestamp=lambda record, _newest, _place: record.value["at"]).process(
        Ticks, name="ticks"
    )
    test = TopologyTest(builder.build(), on_error="dead-letter")
    test.pipe_input("a", "k", {}, 0)
    test.advance_wall_clock(10)
    assert [(fault.node.split()[0], fault.letter) for fault in test.faults] == [("timed", True), ("ticks", False)]


def test_a_record_that_two_nodes_leave_out_gives_one_letter_with_its_own_headers_and_place() -> None:
    builder = StreamsBuilder(value=TEXT)
    lines = builder.stream("lines")
    lines.map_values(lambda line: line[9], name="ninth").to("a")
    lines.map_values(lambda line: line[8], name="eighth").to("b")
    topology = builder.build()
    test = TopologyTest(topology, on_error="dead-letter")
    test.pipe_input("lines", "k", "short", 7, headers=(("trace", b"1"),))
    assert [fault.letter for fault in test.faults] == [True, False]
    sent = letter(test.faults[0], layout(topology, "app", {"lines": 3}))
    assert (sent.key, sent.value, sent.timestamp) == (b"k", b"short", 7)
    read = read_letter(sent.headers)
    assert (read.cause.topic, read.cause.partition, read.cause.offset) == ("lines", 0, 0)
    assert read.headers == (("trace", b"1"),)
    assert read.cause.exception == "IndexError"
    assert "line[9]" in (read.cause.trace or "")
    assert [name for name, _ in sent.headers if name.startswith("__streams.errors.")] == [
        f"__streams.errors.{name}" for name in ("topic", "partition", "offset", "exception", "message", "stacktrace")
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("skipp", r"no choice 'skipp' \(did you mean skip\?\)"),
        ("procesing=skip", r"did you mean processing\?"),
        ("processing=skip,processing=fail", "named twice"),
        ("processing", "no choice 'processing'"),
    ],
)
def test_a_choice_that_there_is_not_is_refused_with_the_nearest(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        chosen(text)


def test_dead_letters_need_a_topic_and_a_topic_needs_dead_letters() -> None:
    assert choices(None, None) == OnError()
    assert choices(None, "dead").processing is Choice.DEAD_LETTER
    with pytest.raises(TopologyError, match="name it"):
        choices("processing=dead-letter", None)
    with pytest.raises(TopologyError, match="nothing would be written to dead"):
        choices("skip", "dead")
