"""Newer requests may carry longer strings than a record of `__consumer_offsets` can hold."""

import pytest
from group_desk import Desk, offers

from ottla.kernel.errors import ErrorCode
from ottla.messages.offset_commit import OffsetCommitResponse

LONGEST = 0x7FFF


@pytest.mark.parametrize("name", ["g" * (LONGEST + 1), "ä" * (LONGEST // 2 + 1)])
def test_a_group_whose_name_cannot_be_written_is_refused(name: str):
    desk = Desk()
    assert desk.join(group=name).result().error_code == ErrorCode.INVALID_GROUP_ID
    assert desk.commit({("t", 0): 1}, group=name) == ErrorCode.INVALID_GROUP_ID
    assert desk.shard.groups == {}


@pytest.mark.parametrize("name", ["g" * LONGEST, "ä" * (LONGEST // 2)])
def test_a_group_whose_name_just_fits_is_taken(name: str):
    desk = Desk()
    assert desk.stable("a", group=name)[0] == 1
    assert desk.replayed().groups[name].generation == 1


@pytest.mark.parametrize(
    "options",
    [
        {"client": "c" * (LONGEST - 36)},
        {"instance": "i" * (LONGEST - 36)},
        {"protocol_type": "p" * (LONGEST + 1)},
        {"protocols": offers("range", "r" * (LONGEST + 1))},
    ],
)
def test_a_member_that_cannot_be_written_is_refused(options):
    desk = Desk()
    assert desk.join(**options).result().error_code == ErrorCode.INVALID_REQUEST
    assert desk.shard.groups == {}


def test_a_member_whose_id_just_fits_can_be_written():
    desk = Desk()
    slot = desk.join(client="c" * (LONGEST - 37), version=3)
    desk.pass_ms(0)
    member_id = slot.result().member_id
    assert desk.sync(member_id, 1, {}).result().error_code == ErrorCode.NONE


def test_a_commit_that_wants_to_be_kept_for_ever_is_kept_as_long_as_can_be_said():
    desk = Desk()
    assert isinstance(desk.commit({("t", 0): 1}, retention_ms=2**63 - 1, version=2), OffsetCommitResponse)
    assert desk.replayed().offsets.of("g")["t"][0].expire_timestamp_ms == 2**63 - 1
