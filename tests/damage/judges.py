"""Judges how brokers handled a damaged file: pure functions from what was written and what was seen to findings.

A record may be missing only if there is one replica, a fetch at its offset gets an error, and a warning names the
partition and the offsets. No other record may be lost, changed, brought back or delivered twice, warning or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tests.damage.harms import NOTHING
from tests.damage.kinds import KINDS, Concerns, broker_of, may_be_silent, partition_of
from tests.damage.values import (
    OFFSETS_TOPIC,
    ONE,
    PROBE,
    Case,
    Content,
    Finding,
    Known,
    Line,
    LogView,
    Outcome,
    Start,
    View,
    Written,
)

from ottla.kernel.ids import TopicPartition

WORDS = (
    "lost", "changed", "given twice", "came back", "taken twice", "offsets lost", "configuration lost", "garbled",
    "sound replica changed", "others suffer", "sound log refused", "fell", "hung", "traceback", "did not start",
    "no remedy", "did not stop", "wrong lookup", "readers differ", "offsets not named", "unsaid", "doctor content",
    "check content", "check alarmed",
)  # fmt: skip
"""All findings, the worst first."""
SAID = ("warning", "error", "critical")
REMEDIES = re.compile(
    r"\b(restore|remove|delete|move|replace|copy|give|set|start again|start the broker|put|rename|repair|rebuild"
    r"|unregister|use|stop|run|write|make|take|recreate|correct)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w./-])\d+(?![\w/])")


def condemn(case: Case, known: Known, outcome: Outcome) -> list[Finding]:
    """All findings about a case, the worst first."""
    found = [finding for judge in JUDGES for finding in judge(case, known, outcome)]
    return sorted(found, key=lambda finding: WORDS.index(finding.word))


def damaged_partition(case: Case) -> TopicPartition | None:
    return partition_of(case.path)


def damaged_broker(case: Case) -> int | None:
    """The broker with the damaged file; None if the shared store is damaged."""
    return broker_of(case.path)


def is_served(case: Case, outcome: Outcome) -> bool:
    """True if at least one broker started, so that there is something to read from."""
    return any(start is Start.READY for start in outcome.starts.values())


# --- records ---


def records(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """Every acknowledged record is there unchanged, or it may be missing and has an error and a warning."""
    if not is_served(case, outcome):
        return
    for view in outcome.views:
        for log, written in known.logs.items():
            seen = view.logs.get(log)
            if seen is None:
                yield Finding("lost", f"{log}: the topic or partition is gone ({view.when})")
            else:
                yield from _one_log(case, outcome, view, log, written, seen)


def is_all_said(case: Case, known: Known, outcome: Outcome) -> bool:
    """True if the brokers have logged all that they must; a scrub logs its findings some moments after the start."""
    silent = (finding for judge in (records, saying) for finding in judge(case, known, outcome))
    return not any(finding.word in ("unsaid", "offsets not named") for finding in silent)


def _one_log(
    case: Case, outcome: Outcome, view: View, log: TopicPartition, written: Written, seen: LogView
) -> Iterator[Finding]:
    where = f"{log} ({view.when})"
    changed = [
        offset
        for offset, content in seen.records.items()
        if offset >= written.start and _differs(log, written, offset, content)
    ]
    if changed:
        yield Finding("changed", f"{where}: other records at offsets {runs(changed)}")
    back = [offset for offset in seen.records if offset < written.start]
    if back:
        yield Finding("came back", f"{where}: deleted records at offsets {runs(back)}")
    if seen.garbled and view.final:
        yield Finding("garbled", f"{where}: bytes that differ from their checksum at offsets {runs(seen.garbled)}")
    missing = [offset for offset in _expected(written, seen) if offset not in seen.records]
    if not view.final:
        missing = [offset for offset in missing if offset < seen.visible_to and not seen.error]
    silent = [offset for offset in missing if not _refused(seen, offset) and offset not in seen.garbled]
    if silent:
        yield Finding("lost", f"{where}: offsets {runs(silent)} are missing without an error")
    refused = [offset for offset in missing if _refused(seen, offset)]
    if refused and view.final:
        yield from _refused_ones(case, outcome, log, where, refused, seen)


def _differs(log: TopicPartition, written: Written, offset: int, content: Content) -> bool:
    """True if a record is neither one that was written before the damage nor one that we wrote after it."""
    if offset < written.end:
        if written.compacted and offset not in written.records:
            return log.topic != OFFSETS_TOPIC and written.earlier.get(offset) != content
        return written.records.get(offset) != content
    return log.topic != OFFSETS_TOPIC and content != PROBE and content not in written.last_contents


def _refused_ones(
    case: Case, outcome: Outcome, log: TopicPartition, where: str, refused: list[int], seen: LogView
) -> Iterator[Finding]:
    errors = sorted({seen.error} if seen.error else {seen.refused[offset] for offset in refused})
    what = f"{where}: offsets {runs(refused)} are refused ({', '.join(errors)})"
    if case.setting != ONE:
        yield Finding("lost", f"{what}, though two other replicas are sound")
    elif log != damaged_partition(case) and KINDS[case.kind].concerns is Concerns.PARTITION:
        yield Finding("others suffer", what)
    elif not _may_miss(case, log):
        yield Finding("sound log refused", what)
    elif not any(_names(line, log, refused) for line in outcome.lines):
        yield Finding("offsets not named", f"{what}, and no warning names the partition and these offsets")


def _may_miss(case: Case, log: TopicPartition) -> bool:
    """True if the damage may cost records of a log: the file holds records, and belongs to this log or to none."""
    return KINDS[case.kind].holds_records and damaged_partition(case) in (log, None)


def _whose(case: Case, log: TopicPartition) -> str:
    """The finding's word for a log that is not served although it holds all of its records."""
    return "sound log refused" if log == damaged_partition(case) and case.setting == ONE else "others suffer"


def _expected(written: Written, seen: LogView) -> Iterator[int]:
    """Offsets whose record must be there; in a compacted log, only those without a later record of their key."""
    if not written.compacted:
        yield from written.records
        return
    last = {content.key: offset for offset, content in sorted(written.records.items())}
    newer = {content.key for offset, content in seen.records.items() if offset >= written.end}
    for offset, content in written.records.items():
        if last[content.key] == offset and content.key not in newer:
            yield offset


def _refused(seen: LogView, offset: int) -> bool:
    return bool(seen.error) or offset in seen.refused


def _names(line: Line, log: TopicPartition, offsets: list[int]) -> bool:
    """True if a line is a warning that names the partition, and numbers that enclose the offsets."""
    if line.level not in SAID or str(log) not in line.text:
        return False
    numbers = [int(number) for number in _NUMBER.findall(line.text)]
    return any(low <= min(offsets) for low in numbers) and any(high >= max(offsets) for high in numbers)


# --- offsets, groups, configurations ---


def writes(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """New records get new offsets; a batch sent again gets its first offset; other partitions take writes."""
    lost = {log for view in outcome.views for log, seen in view.logs.items() if seen.error or seen.refused}
    for probe in outcome.probes:
        written = known.logs[probe.log]
        if probe.error:
            if not _may_miss(case, probe.log) or case.setting != ONE:
                yield Finding(_whose(case, probe.log), f"{probe.log} takes no writes: {probe.error}")
        elif probe.again and probe.log not in lost and probe.offset != written.last_batch_offset:
            what = f"a batch of offset {written.last_batch_offset} sent again was taken at {probe.offset}"
            yield Finding("taken twice", f"{probe.log}: {what}")
        elif not probe.again and probe.offset < written.end:
            what = f"a new record got offset {probe.offset}, and {written.end - 1} was acknowledged"
            yield Finding("given twice", f"{probe.log}: {what}")


def lookups(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """ListOffsets by time answers as before if all records are there."""
    for view in outcome.views:
        for log, seen in view.logs.items():
            written = known.logs.get(log)
            if written is None or not view.final or seen.error or not _is_whole(written, seen):
                continue
            for time, offset in seen.times.items():
                if offset != written.times.get(time, offset) and not written.compacted:
                    what = f"ListOffsets at {time} gives {offset}, and gave {written.times[time]}"
                    yield Finding("wrong lookup", f"{log} ({view.when}): {what}")


def _is_whole(written: Written, seen: LogView) -> bool:
    """True if every expected record was seen, and none below the log start."""
    return min(seen.records, default=0) >= written.start and all(at in seen.records for at in _expected(written, seen))


def groups(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """Every committed offset is there, or it is refused and its partition's only replica was damaged."""
    for view in outcome.views:
        if not view.final:
            continue
        for group, committed in known.offsets.items():
            seen = view.offsets.get(group, "not asked")
            if isinstance(seen, str):
                offsets = TopicPartition(OFFSETS_TOPIC, 0)
                if case.setting != ONE or not _may_miss(case, offsets):
                    yield Finding(_whose(case, offsets), f"group {group} ({view.when}): {seen}")
            elif wrong := {log: seen.get(log, -1) for log in committed if seen.get(log, -1) != committed[log]}:
                yield Finding(
                    "offsets lost", f"group {group} ({view.when}): {_places(wrong)}, not {_places(committed)}"
                )


def configs(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """Every topic's configuration is as it was."""
    for view in outcome.views:
        for topic, wanted in known.configs.items():
            seen = view.configs.get(topic, "the topic is gone")
            if not view.final or not is_served(case, outcome):
                continue
            if isinstance(seen, str):
                yield Finding("configuration lost", f"{topic} ({view.when}): {seen}")
            elif wrong := {key: seen.get(key) for key in wanted if seen.get(key) != wanted[key]}:
                yield Finding("configuration lost", f"{topic} ({view.when}): {wrong}, not {dict(wanted)}")


# --- brokers ---


def starting(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """Brokers start and run; one that lacks a file for the whole broker ends with a message and advice."""
    damaged = damaged_broker(case)
    for broker, start in sorted(outcome.starts.items()):
        words = _last_words(outcome, broker)
        may_refuse = KINDS[case.kind].may_refuse and (damaged is None or broker == damaged)
        if start is Start.HUNG:
            yield Finding("hung", f"broker {broker} is neither ready nor ended: {words}")
        elif start is Start.ENDED and not may_refuse:
            yield Finding("did not start", f"broker {broker}: {words}")
        elif start is Start.ENDED and not (_is_about(case, words) and REMEDIES.search(words)):
            yield Finding("no remedy", f"broker {broker} names no file, or nothing to do: {words}")
    for line in outcome.lines:
        if "Traceback (most recent call last)" in line.text:
            yield Finding("traceback", f"broker {line.broker}: {line.text.strip().splitlines()[-1]}")
    for broker in outcome.fell:
        yield Finding("fell", f"broker {broker} ended by itself: {_last_words(outcome, broker)}")
    for broker, status in sorted(outcome.stops.items()):
        if status != 0:
            yield Finding("did not stop", f"broker {broker}: {'killed' if status is None else f'status {status}'}")


def sound_replicas(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """Sound replicas keep their bytes, and all other partitions are in sync; other clients read the same."""
    for path in outcome.changed:
        yield Finding("sound replica changed", path)
    partition = damaged_partition(case)
    if partition is not None:
        for log in outcome.out_of_sync:
            if log != partition:
                yield Finding("others suffer", f"{log} has replicas out of sync")
    for log in outcome.differing:
        yield Finding("readers differ", f"{log}: confluent-kafka reads something else than ottla's client")


def saying(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """A warning names the file or its partition, also after a repair."""
    kind = KINDS[case.kind]
    if (
        case.harm == NOTHING
        or may_be_silent(kind, case.harm, case.stratum, alone=case.setting == ONE)
        or any(line.level in SAID and _is_about(case, line.text) for line in outcome.lines)
    ):
        return
    after = "and it was made anew" if outcome.restored else "and it is still damaged or missing"
    yield Finding("unsaid", f"no warning names {case.path} or its partition, {after}")


def doctoring(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """`ottla doctor` names each partition that is not served whole at the end."""
    told = outcome.doctored
    views = [view for view in outcome.views if view.final]
    if told is None or not views:
        return
    refused = [log for log, seen in views[-1].logs.items() if seen.error or seen.refused or seen.garbled]
    for log in refused:
        if told.code == 0 or not any(str(log) in line for line in told.text.splitlines()):
            yield Finding("doctor content", f"{log} is not served whole, and `ottla doctor` does not name it")


def checking(case: Case, known: Known, outcome: Outcome) -> Iterator[Finding]:
    """`ottla log check` names a damage of a log directory, with advice; it finds nothing in a sound one."""
    told, kind = outcome.checked, KINDS[case.kind]
    if told is None:
        return
    if "Traceback" in told.text:
        yield Finding("traceback", f"ottla log check: {told.text.strip().splitlines()[-1]}")
    elif case.harm == NOTHING:
        if told.code:
            yield Finding("check alarmed", f"`ottla log check` of sound files: {told.text.strip()}")
    elif case.harm not in kind.unchecked and not may_be_silent(
        kind, case.harm, case.stratum, alone=case.setting == ONE
    ):
        lines = told.text.splitlines()
        if told.code == 0 or not any(_is_about(case, line) for line in lines):
            yield Finding("check content", f"`ottla log check` does not name {case.path}: {lines[-1] if lines else ''}")
        elif not REMEDIES.search(told.text):
            yield Finding("no remedy", f"`ottla log check` names nothing to do: {told.text.strip()}")


def _is_about(case: Case, text: str) -> bool:
    """True if a line names the damaged file, its partition or its directory."""
    partition = damaged_partition(case)
    if partition is not None:
        return str(partition) in text
    name = case.path.rpartition("/")[2]
    if case.kind == "log directory":
        return case.path in text or "directory" in text
    if KINDS[case.kind].concerns is Concerns.STORE:
        return name in text or "metadata store" in text or "/store" in text or "/metadata" in text
    return name in text


def _last_words(outcome: Outcome, broker: int) -> str:
    said = [line.text.strip() for line in outcome.lines if line.broker == broker and line.level in SAID]
    return said[-1].splitlines()[-1] if said and said[-1] else "not a word"


def _places(offsets: object) -> str:
    assert isinstance(offsets, dict)
    return ", ".join(f"{log} at {offset}" for log, offset in sorted(offsets.items()))


def runs(offsets: Iterable[int]) -> str:
    """Offsets as runs: `3 to 5, 9`."""
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in found]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more runs" if len(shown) > 6 else "")


Judge = Callable[[Case, Known, Outcome], Iterator[Finding]]
JUDGES: tuple[Judge, ...] = (
    records,
    writes,
    lookups,
    groups,
    configs,
    starting,
    sound_replicas,
    saying,
    doctoring,
    checking,
)
