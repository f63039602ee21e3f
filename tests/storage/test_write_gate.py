"""Errors that close a log for writing, and those that do not."""

from __future__ import annotations

import errno

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.storage.write_gate import WriteGate


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_refuses_a_batch_and_nothing_more(error: int) -> None:
    gate = WriteGate()
    assert gate.refuse(OSError(error, "full")) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not gate.closed


def test_any_other_error_rises_and_closes_the_gate_for_good() -> None:
    gate = WriteGate()
    with pytest.raises(OSError, match="broken"):
        gate.refuse(OSError(errno.EIO, "broken"))
    assert gate.closed
    gate.emptied()
    assert gate.closed


def test_a_log_that_stopped_at_damage_takes_nothing_and_knows_where_until_it_is_emptied() -> None:
    gate = WriteGate()
    gate.close_at_damage(7)
    assert gate.closed and gate.damaged_at == 7
    gate.emptied()
    assert gate.damaged_at is None
