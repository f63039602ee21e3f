"""Tests of the judges: from what was written and what was seen to findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from tests.damage.harms import NOTHING
from tests.damage.judges import WORDS, condemn, is_all_said, runs
from tests.damage.table import MEANING
from tests.damage.values import (
    FIRST,
    KILL,
    OFFSETS_TOPIC,
    ONE,
    PROBE,
    Case,
    Content,
    Known,
    Line,
    LogView,
    Outcome,
    Probe,
    Start,
    Told,
    View,
    Written,
)

from ottla.kernel.ids import TopicPartition

A, B, COMPACTED = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("c", 0)
OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
A_SEGMENT = f"broker-1/a-0/{0:020}.log"
CASE = Case("active segment", "bit", KILL, ONE, A_SEGMENT, "crc of the last batch")
OF_THREE = CASE._replace(setting=FIRST)
CHECKPOINT = Case("log-start-offset-checkpoint", "garbage", KILL, ONE, "broker-1/log-start-offset-checkpoint")
IDENTITY = Case("meta.properties", "garbage", KILL, ONE, "broker-1/meta.properties")
SAID = Line(1, "warning", f"/data/a-0/{0:020}.log is damaged: offsets 3 to 5 are refused")


def content(number: int, key: bytes = b"k") -> Content:
    return Content(1000 + number, key, b"%d" % number)


def written(start: int = 0, end: int = 10) -> Written:
    records = {offset: content(offset) for offset in range(start, end)}
    return Written(start, end, records, times={1004: 4}, last_batch=b"batch", last_batch_offset=end - 2)


LAST_OF_KEYS = {0: content(0, b"x"), 1: content(1, b"y"), 2: content(2, b"x")}
KNOWN = Known(
    {A: written(), B: written(start=4), COMPACTED: Written(0, 3, LAST_OF_KEYS, compacted=True, last_batch_offset=2)},
    {"group": {A: 7}},
    {"a": {"retention.ms": "-1"}},
)


def well(case: Case = CASE) -> Outcome:
    """An outcome in which every record is there and the damage is reported."""
    logs = {
        log: LogView(start=each.start, visible_to=each.end, records=dict(each.records), times=dict(each.times))
        for log, each in KNOWN.logs.items()
    }
    view = View("all started", logs, dict.fromkeys(logs, 1), {"group": {A: 7}}, {"a": {"retention.ms": "-1"}})
    probes = [probe for log in (A, B) for probe in (Probe(log, 8, again=True), Probe(log, 10))]
    brokers = (1,) if case.setting == ONE else (1, 2, 3)
    said = SAID if case.path == A_SEGMENT else Line(1, "warning", f"/data/{case.path} is made anew")
    return Outcome([view], probes, [said], dict.fromkeys(brokers, Start.READY), dict.fromkeys(brokers, 0))


def words(case: Case, outcome: Outcome, known: Known = KNOWN) -> list[str]:
    return [finding.word for finding in condemn(case, known, outcome)]


def refuse(outcome: Outcome, *offsets: int, log: TopicPartition = A, code: str = "CORRUPT_MESSAGE") -> Outcome:
    """Let fetches at these offsets get an error."""
    seen = outcome.views[0].logs[log]
    for offset in offsets:
        del seen.records[offset]
        seen.refused[offset] = code
    return outcome


def forget(outcome: Outcome, *offsets: int, log: TopicPartition = A) -> Outcome:
    for offset in offsets:
        del outcome.views[0].logs[log].records[offset]
    return outcome


@pytest.mark.parametrize("case", [CASE, OF_THREE, CHECKPOINT, IDENTITY])
def test_nothing_is_wrong_where_all_is_there_and_the_damage_is_said(case: Case) -> None:
    assert words(case, well(case)) == []


def test_every_word_of_a_finding_has_a_meaning_in_the_docs() -> None:
    assert set(WORDS) == set(MEANING)


# --- records ---


def test_a_record_that_is_missing_without_an_error_is_lost() -> None:
    assert words(CASE, forget(well(), 5)) == ["lost"]


def test_a_partition_that_is_gone_is_lost() -> None:
    outcome = well()
    del outcome.views[0].logs[B]
    assert words(CASE, outcome) == ["lost"]


def test_damaged_records_of_one_replica_may_be_refused_where_a_warning_names_their_offsets() -> None:
    assert words(CASE, refuse(well(), 3, 4, 5)) == []


@pytest.mark.parametrize(
    "line",
    [
        SAID._replace(text="a-0 is damaged"),
        SAID._replace(text="a-0 is damaged: offsets 4 to 9 are refused"),
        SAID._replace(text="a-0 is damaged: offsets 0 to 4 are refused"),
        SAID._replace(text=f"/data/b-0/{0:020}.log is damaged: offsets 3 to 5 are refused, see also a-1"),
    ],
)
def test_a_warning_that_does_not_name_the_offsets_is_not_enough(line: Line) -> None:
    outcome = refuse(well(), 3, 4, 5)
    outcome.lines = [line]
    assert "offsets not named" in words(CASE, outcome)
    assert not is_all_said(CASE, KNOWN, outcome)


def test_offsets_in_a_line_of_information_are_not_named() -> None:
    outcome = refuse(well(), 3, 4, 5)
    outcome.lines = [SAID._replace(level="info")]
    assert words(CASE, outcome) == ["offsets not named", "unsaid"]


def test_digits_of_a_file_name_are_no_offsets() -> None:
    outcome = refuse(well(), 3, 4, 5)
    outcome.lines = [SAID._replace(text=f"/data/a-0/{0:020}.log is damaged up to {10:020}.log")]
    assert words(CASE, outcome) == ["offsets not named"]


def test_with_three_replicas_nothing_may_be_refused() -> None:
    assert words(OF_THREE, refuse(well(OF_THREE), 4)) == ["lost"]


def test_a_partition_that_nobody_damaged_is_served_whole() -> None:
    assert words(CASE, refuse(well(), 4, log=B)) == ["others suffer"]


def test_damage_outside_of_segments_costs_no_records() -> None:
    index = CASE._replace(kind="active index", path=A_SEGMENT.replace(".log", ".index"))
    assert words(index, refuse(well(), 3, 4, 5)) == ["sound log refused"]
    assert words(CHECKPOINT, refuse(well(CHECKPOINT), 3, 4, 5)) == ["sound log refused"]


def test_a_partition_whose_index_is_damaged_takes_writes() -> None:
    index = CASE._replace(kind="active index", path=A_SEGMENT.replace(".log", ".index"))
    outcome = well()
    outcome.probes[1] = Probe(A, -1, "KAFKA_STORAGE_ERROR")
    assert words(index, outcome) == ["sound log refused"]


def test_a_whole_log_that_is_refused_is_judged_like_its_records() -> None:
    outcome = well()
    outcome.views[0].logs[A] = LogView(error="no leader (KAFKA_STORAGE_ERROR)")
    assert words(CASE, outcome) == ["offsets not named"]
    outcome.lines.append(SAID._replace(text="a-0 is offline: offsets 0 to 9"))
    assert words(CASE, outcome) == []
    three = well(OF_THREE)
    three.views[0].logs[A] = LogView(error="no leader (KAFKA_STORAGE_ERROR)")
    assert words(OF_THREE, three) == ["lost"]


def test_another_record_at_an_offset_is_condemned() -> None:
    outcome = well()
    outcome.views[0].logs[A].records[3] = content(99)
    assert words(CASE, outcome) == ["changed"]


def test_a_record_that_nobody_wrote_is_condemned_and_what_we_wrote_after_the_start_is_not() -> None:
    outcome = well()
    records = outcome.views[0].logs[A].records
    records[10] = PROBE
    assert words(CASE, outcome) == []
    records[1 << 54] = content(99)
    assert words(CASE, outcome) == ["changed"]


def test_a_deleted_record_must_not_come_back() -> None:
    outcome = well()
    outcome.views[0].logs[B].records[3] = content(3)
    assert words(CASE, outcome) == ["came back"]


def test_bytes_that_differ_from_their_checksum_are_condemned_where_the_broker_goes_on_serving_them() -> None:
    outcome = forget(well(), 4)
    outcome.views[0].logs[A].garbled = {4}
    assert words(CASE, outcome) == ["garbled"]


def test_compaction_may_take_what_a_later_record_of_the_key_replaces_and_no_more() -> None:
    assert words(CASE, forget(well(), 0, log=COMPACTED)) == []
    assert words(CASE, forget(well(), 1, log=COMPACTED)) == ["lost"]
    replaced = forget(well(), 2, log=COMPACTED)
    replaced.views[0].logs[COMPACTED].records[3] = content(2, b"x")
    assert words(CASE, replaced) == []


def test_a_replica_may_show_what_compaction_took_elsewhere_as_it_was_written_and_not_otherwise() -> None:
    compacted = replace(KNOWN.logs[COMPACTED], records={1: content(1, b"y")}, earlier={0: content(0, b"x")})
    known = replace(KNOWN, logs={**KNOWN.logs, COMPACTED: compacted})
    outcome = well()
    seen = outcome.views[0].logs[COMPACTED].records = {0: content(0, b"x"), 1: content(1, b"y")}
    assert words(CASE, outcome, known) == []
    seen[0] = content(5, b"x")
    assert words(CASE, outcome, known) == ["changed"]


def test_before_all_brokers_run_only_what_is_visible_can_be_missing() -> None:
    early = well(OF_THREE)
    view = replace(early.views[0], when="alone", final=False, offsets={}, configs={})
    view.logs = {A: LogView(start=0, visible_to=5, records={at: content(at) for at in range(5)})}
    view.logs |= {B: LogView(error="no leader"), COMPACTED: LogView(visible_to=0)}
    early.views.insert(0, view)
    assert words(OF_THREE, early) == []
    del view.logs[A].records[2]
    assert words(OF_THREE, early) == ["lost"]


# --- writes, lookups, groups, configurations ---


def test_no_offset_is_given_twice() -> None:
    outcome = well()
    outcome.probes[1] = Probe(A, 9)
    assert words(CASE, outcome) == ["given twice"]


def test_a_batch_that_is_sent_again_gets_its_offset_again_where_all_records_are_there() -> None:
    outcome = well()
    outcome.probes[0] = Probe(A, 10, again=True)
    assert words(CASE, outcome) == ["taken twice"]
    assert words(CASE, refuse(outcome, 3, 4, 5)) == []


def test_what_is_not_damaged_takes_writes() -> None:
    outcome = well()
    outcome.probes[3] = Probe(B, -1, "KAFKA_STORAGE_ERROR")
    assert words(CASE, outcome) == ["others suffer"]
    outcome.probes[3] = Probe(B, 10)
    outcome.probes[1] = Probe(A, -1, "KAFKA_STORAGE_ERROR")
    assert words(CASE, outcome) == []
    three = well(OF_THREE)
    three.probes = outcome.probes
    assert words(OF_THREE, three) == ["others suffer"]


def test_a_lookup_by_time_answers_as_before() -> None:
    outcome = well()
    outcome.views[0].logs[A].times = {1004: 5}
    assert words(CASE, outcome) == ["wrong lookup"]


def test_a_lookup_is_not_judged_where_records_are_missing_or_have_come_back() -> None:
    missing, back = forget(well(), 5, log=B), well()
    back.views[0].logs[B].records[3] = content(3)
    for outcome in (missing, back):
        outcome.views[0].logs[B].times = {1004: 3}
        assert "wrong lookup" not in words(CASE, outcome)


def test_a_committed_offset_that_is_another_is_condemned() -> None:
    outcome = well()
    outcome.views[0].offsets = {"group": {A: 6}}
    assert words(CASE, outcome) == ["offsets lost"]
    outcome.views[0].offsets = {"group": {}}
    assert words(CASE, outcome) == ["offsets lost"]


def test_a_group_may_be_refused_only_where_its_partition_is_damaged_and_has_no_other_replica() -> None:
    path = f"broker-1/{OFFSETS_TOPIC}-0/{0:020}.log"
    known = replace(KNOWN, logs={**KNOWN.logs, OFFSETS: Written(0, 0, {})})
    for setting, expected in ((ONE, []), (FIRST, ["others suffer"])):
        case = CASE._replace(path=path, setting=setting)
        outcome = well(CASE._replace(setting=setting))
        outcome.lines = [SAID._replace(text=f"{OFFSETS_TOPIC}-0 is damaged")]
        outcome.views[0].logs[OFFSETS] = LogView(start=0, visible_to=0)
        outcome.views[0].offsets = {"group": "COORDINATOR_LOAD_IN_PROGRESS"}
        assert words(case, outcome, known) == expected
    outcome = well()
    outcome.views[0].offsets = {"group": "COORDINATOR_LOAD_IN_PROGRESS"}
    assert words(CASE, outcome) == ["others suffer"]


def test_a_configuration_that_is_another_or_gone_is_condemned() -> None:
    some: tuple[dict[str, Mapping[str, str] | str], ...] = (
        {},
        {"a": {}},
        {"a": {"retention.ms": "1"}},
        {"a": "UNKNOWN_TOPIC_OR_PARTITION"},
    )
    for seen in some:
        outcome = well()
        outcome.views[0].configs = seen
        assert words(CASE, outcome) == ["configuration lost"], seen


# --- brokers ---


def ended(case: Case, text: str) -> Outcome:
    """The one broker refuses to start with these words."""
    return Outcome(lines=[Line(1, "error", text)], starts={1: Start.ENDED})


def test_a_broker_may_refuse_to_start_without_its_identity_if_it_says_what_to_do() -> None:
    said = "ottla: cannot start: /d/broker-1/meta.properties is damaged: restore it from a copy, and start again"
    assert words(IDENTITY, ended(IDENTITY, said)) == []
    assert words(IDENTITY, ended(IDENTITY, "ottla: cannot start: /d/broker-1/meta.properties is damaged")) == [
        "no remedy"
    ]
    assert words(IDENTITY, ended(IDENTITY, "ottla: cannot start: restore the file")) == ["no remedy", "unsaid"]


def test_a_broker_starts_without_any_other_file() -> None:
    assert words(CASE, ended(CASE, f"cannot start: {A_SEGMENT}: remove it")) == ["did not start"]


def test_no_other_broker_refuses_to_start() -> None:
    case = IDENTITY._replace(setting=FIRST)
    outcome = well(case)
    outcome.starts[2] = Start.ENDED
    del outcome.stops[2]
    assert words(case, outcome) == ["did not start"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda outcome: outcome.starts.update({1: Start.HUNG}), "hung"),
        (lambda outcome: outcome.fell.append(1), "fell"),
        (lambda outcome: outcome.stops.update({1: None}), "did not stop"),
        (lambda outcome: outcome.stops.update({1: 1}), "did not stop"),
        (lambda outcome: outcome.changed.append("broker-2/a-0 has other bytes"), "sound replica changed"),
        (lambda outcome: outcome.out_of_sync.append(B), "others suffer"),
        (lambda outcome: outcome.differing.append(B), "readers differ"),
        (
            lambda outcome: outcome.lines.append(Line(2, "error", "Traceback (most recent call last):\nKeyError: 1")),
            "traceback",
        ),
    ],
)
def test_each_other_thing_that_goes_wrong_is_condemned(change: Callable[[Outcome], object], word: str) -> None:
    outcome = well(OF_THREE)
    change(outcome)
    assert words(OF_THREE, outcome) == [word]


def test_the_damaged_replica_itself_may_stay_out_of_sync() -> None:
    outcome = well(OF_THREE)
    outcome.out_of_sync = [A]
    assert words(OF_THREE, outcome) == []


@pytest.mark.parametrize("case", [CASE, CHECKPOINT, IDENTITY])
def test_a_damage_of_which_nothing_is_said_is_condemned(case: Case) -> None:
    outcome = well(case)
    outcome.lines = [Line(1, "info", line.text) for line in outcome.lines] + [Line(1, "warning", "b-0 is slow")]
    assert words(case, outcome) == ["unsaid"]
    assert not is_all_said(case, KNOWN, outcome)


def test_nothing_need_be_said_of_a_file_in_which_nothing_is_or_where_nothing_was_done() -> None:
    for case in (Case(".lock", "removed", KILL, ONE, "broker-1/.lock"), CASE._replace(harm=NOTHING)):
        outcome = well(case)
        outcome.lines = []
        assert words(case, outcome) == []


def test_the_worst_finding_comes_first() -> None:
    outcome = forget(well(), 5)
    outcome.lines = []
    outcome.probes[1] = Probe(A, 5)
    assert words(CASE, outcome) == ["lost", "given twice", "unsaid"]


def test_offsets_are_shown_as_runs() -> None:
    assert runs([1, 2, 3, 7, 9, 10]) == "1 to 3, 7, 9 to 10"
    assert runs(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10 and 14 more runs"


# --- commands ---


CHECKED = Told(1, f"/data/a-0/{0:020}.log: damaged from byte 0 to 61: offsets 3 to 5\n    start the broker: ...\n")
SOUND = Told(0, "3 segments, 120 bytes: no damage\n")


def test_a_check_that_names_the_damage_and_what_to_do_is_right() -> None:
    assert words(CASE, replace(well(), checked=CHECKED)) == []


@pytest.mark.parametrize("told", [SOUND, Told(1, CHECKED.text.replace("a-0", "b-0"))])
def test_a_check_that_does_not_name_the_damage_is_content(told: Told) -> None:
    assert words(CASE, replace(well(), checked=told)) == ["check content"]


def test_a_check_must_say_what_to_do() -> None:
    text = CHECKED.text.splitlines()[0]
    assert words(CASE, replace(well(), checked=Told(1, text))) == ["no remedy"]


def test_a_check_may_be_content_where_only_the_metadata_could_tell() -> None:
    copied = Case("log directory", "older", KILL, FIRST, "broker-1")
    assert words(copied, replace(well(copied), checked=SOUND)) == []


def test_a_check_is_content_with_sound_files_and_ends_without_a_traceback() -> None:
    control = CASE._replace(harm=NOTHING)
    assert words(control, replace(well(), checked=SOUND)) == []
    assert words(control, replace(well(), checked=CHECKED)) == ["check alarmed"]
    broken = Told(1, "Traceback (most recent call last):\nOSError: no")
    assert words(CASE, replace(well(), checked=broken)) == ["traceback"]


def test_doctor_names_partitions_that_are_not_served_whole() -> None:
    outcome = refuse(well(), 3, 4, 5)
    assert words(CASE, replace(outcome, doctored=Told(1, "WRONG a-0 on broker 1 (/data/a-0): damaged"))) == []
    for told in (Told(0, "ok a-0"), Told(1, "WRONG b-0 on broker 1 (/data/b-0): damaged")):
        assert words(CASE, replace(outcome, doctored=told)) == ["doctor content"]


def test_an_offset_of_a_time_index_may_flip_in_silence_and_a_timestamp_may_not() -> None:
    path = f"broker-1/a-0/{0:020}.timeindex"
    case = Case("closed timeindex", "bit", KILL, ONE, path, "offset of the first entry")
    silent = replace(well(), lines=[])
    assert words(case, silent) == []
    assert words(case._replace(stratum="timestamp of the first entry"), silent) == ["unsaid"]


def test_only_the_last_timestamp_of_the_segment_that_is_written_has_to_be_named() -> None:
    path = f"broker-1/a-0/{9:020}.timeindex"
    case = Case("active timeindex", "bit", KILL, ONE, path, "timestamp of the first entry")
    silent = replace(well(), lines=[])
    assert words(case, silent) == []
    assert words(case._replace(stratum="timestamp of the last entry"), silent) == ["unsaid"]
