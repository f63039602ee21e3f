"""The chain of an audit log: what was changed, cut or taken out is found."""

from __future__ import annotations

import json

import pytest

from ottla.access.audit import AuditEnd, audit_line, judge_lines


def a_log(events: int = 5) -> tuple[list[str], AuditEnd]:
    lines, end = [], AuditEnd()
    for number in range(events):
        line, end = audit_line({"event": "login", "principal": f"User:{number} ü"}, end)
        lines.append(line)
    return lines, end


def test_a_log_as_it_was_written_has_no_fault() -> None:
    lines, end = a_log()
    assert judge_lines(lines, last=end) == (end, ())
    assert judge_lines([]) == (AuditEnd(), ())


def test_a_log_goes_on_in_another_file() -> None:
    lines, end = a_log()
    first = judge_lines(lines[:2])
    assert judge_lines(lines[2:], first.end, end) == (end, ())


@pytest.mark.parametrize("field", ["principal", "event", "chain"])
def test_a_changed_line_is_found(field: str) -> None:
    lines, _ = a_log()
    lines[2] = json.dumps(json.loads(lines[2]) | {field: "another"})
    assert "line 3: it, or the line before it" in judge_lines(lines).faults[0]


def test_a_missing_a_doubled_and_a_swapped_line_are_found() -> None:
    lines, _ = a_log()
    assert judge_lines([*lines[:2], *lines[3:]]).faults == (
        "line 3: it is number 4, but number 3 is due: lines are missing",
    )
    assert judge_lines([*lines[:3], *lines[2:]]).faults
    assert judge_lines([lines[1], lines[0], *lines[2:]]).faults
    assert judge_lines(lines[1:]).faults


def test_a_cut_end_is_found_by_the_noted_one_alone() -> None:
    lines, end = a_log()
    assert judge_lines(lines[:4]).faults == ()
    assert "number 5 was noted as the last" in judge_lines(lines[:4], last=end).faults[0]
    assert judge_lines([*lines[:4], lines[4][:20]]).faults == ("line 5: it is no line of an audit log",)
