"""The answer of DescribeGroups about a classic group, or about a missing one."""

from __future__ import annotations

from ottla.groups.group import Group, GroupState
from ottla.kernel.errors import ErrorCode, clipped
from ottla.messages.describe_groups import DescribedGroup, DescribedGroupMember

_NOT_FOUND_SINCE = 6


def described(group: Group | None, group_id: str, version: int) -> DescribedGroup:
    """The answer in that version of the API; groups of another kind count as missing."""
    if group is not None:
        return _described(group)
    gone = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= _NOT_FOUND_SINCE:
        gone.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        gone.error_message = f"Group {clipped(group_id)} not found."
    return gone


def _described(group: Group) -> DescribedGroup:
    """The members as DescribeGroups shows them: their metadata only where the group is stable."""
    stable = group.state is GroupState.STABLE
    protocol = (group.protocol_name or "") if stable else ""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
