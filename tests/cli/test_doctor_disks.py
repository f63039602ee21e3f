"""`ottla doctor` warns of log directories with little free space."""

from __future__ import annotations

import pytest

from ottla.cli.doctor_disks import is_short

GIB = 1 << 30


@pytest.mark.parametrize(
    ("total", "usable", "short"),
    [
        (24 << 20, 1 << 20, True),
        (24 << 20, 2 << 20, False),
        (10_000 * GIB, 2 * GIB, False),
        (10_000 * GIB, GIB - 1, True),
        (100 * GIB, 0, True),
        (-1, -1, False),
        (0, 0, False),
    ],
)
def test_little_room_is_a_small_share_and_little_in_itself(total: int, usable: int, short: bool) -> None:
    assert is_short(total, usable) == short
