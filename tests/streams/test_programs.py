"""The campaign of topologies made at random finds what differs, and gives its input again for a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.streams.campaign.at_random import differences, fewest
from tests.streams.oracle import Row
from tests.streams.programs import OPERATIONS, Program, built, drawn

PROGRAM: Program = [("stream", 0, [], "a"), ("filter", 0, [0], ""), ("to", 0, [1], "out")]
ROWS: list[Row] = [("a", "k", "1", 0), ("a", "k", "2", 1), ("a", "j", "12", 2)]


def kafka_without_j(program: Program, rows: Sequence[Row]) -> Any:
    kept = [row for row in rows if "1" in (row[2] or "") and row[1] == "k"]
    return {"describe": built(program).describe(), "outputs": [[*row[1:], "out"] for row in kept]}


def test_a_result_that_the_driver_does_not_have_is_a_difference_of_each_way_to_run() -> None:
    found = differences(PROGRAM, ROWS, 0, kafka_without_j)
    assert len(found) == 3
    assert all("('out', 'j'): [('12', 2)]; Kafka None" in each for each in found)


def test_the_rows_that_make_no_difference_are_left_out() -> None:
    assert fewest(PROGRAM, ROWS, 0, kafka_without_j) == [("a", "j", "12", 2)]


def test_a_seed_gives_the_same_programs_and_many_take_every_operation() -> None:
    programs = [drawn(random.Random(f"1 {number}")) for number in range(200)]
    assert programs[7] == drawn(random.Random("1 7"))
    assert {step[0] for program, _ in programs for step in program} >= OPERATIONS.keys()
