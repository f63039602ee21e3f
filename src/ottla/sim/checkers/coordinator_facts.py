"""The state of a coordinator's shard as facts that can be compared: by group or transactional id, and by field."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.group import Group, GroupState, Member
from ottla.groups.shard import GroupShard
from ottla.transactions.shard import TransactionShard

Facts = dict[str, dict[str, object]]
_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def group_facts(shard: GroupShard, ahead: Collection[str] = ()) -> Facts:
    """The groups of a shard. Of those that are `ahead` of their log only their kind and their offsets are told.

    A group without an entry, members and offsets is left out: a deleted offset or an aborted transaction made it, and
    compaction takes these.
    """
    facts: Facts = {}
    for group_id, topic, index, _ in shard.offsets.everything():
        facts.setdefault(group_id, {})[f"offset of {topic}-{index}"] = shard.offsets.of(group_id)[topic][index]
    for producer, group_id, topic, index, offset in shard.offsets.pending():
        facts.setdefault(group_id, {})[f"offset of {topic}-{index} by producer {producer}"] = offset
    for group_id, group in shard.groups.items():
        if group.written or group_id in facts:
            of_it = facts.setdefault(group_id, {})
            of_it["kind"], of_it["written"] = group.kind, group.written
            if group.written and group_id not in ahead:
                of_it |= _classic_facts(group)
    for group_id, consumers in shard.consumers.groups.items():
        facts.setdefault(group_id, {}).update(_consumer_facts(consumers))
    return facts


def ahead_of_log(live: GroupShard, replayed: GroupShard) -> frozenset[str]:
    """The classic groups that know more than their log.

    A rebalance is written at its end. A group whose last member has gone stays empty even if that could not be written.
    """
    found = set()
    for group_id, group in live.groups.items():
        logged = replayed.groups.get(group_id)
        generation = 0 if logged is None else logged.generation
        emptied = group.state is GroupState.EMPTY and group.generation > generation
        if emptied or (group.state in _REBALANCING and group.generation >= generation):
            found.add(group_id)
    return frozenset(found)


def _classic_facts(group: Group) -> dict[str, object]:
    members = [_member_facts(member, group.protocol_name or "") for member in group.members.values()]
    return {
        "state": group.state,
        "since": group.state_since_ms,
        "generation": group.generation,
        "protocol type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.leader,
        "unled": group.unled,
        "subscribed": group.subscribed,
        "static members": group.static_members,
        "members": members,
    }


def _member_facts(member: Member, protocol: str) -> tuple[object, ...]:
    return (
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(protocol),
        member.assignment,
    )


def _consumer_facts(group: ConsumerGroup) -> dict[str, object]:
    facts: dict[str, object] = {
        "kind": group.kind,
        "epoch": group.epoch,
        "metadata hash": group.metadata_hash,
        "assignment epoch": group.assignment_epoch,
        "assigned at": group.assigned_at_ms,
        "static members": group.static_members,
        "regular expressions": group.regexes,
    }
    for member_id, member in group.members.items():
        facts[f"member {member_id}"] = member
    for member_id, target in group.target.items():
        facts[f"target of {member_id}"] = target
        for topic, indexes in target.items():
            for index in indexes:
                facts[f"owner of {topic.hex()}-{index}"] = group.owner(topic, index)
    return facts


def transaction_facts(shard: TransactionShard) -> Facts:
    return {
        transactional_id: {field.name: getattr(transaction, field.name) for field in fields(transaction)}
        for transactional_id, transaction in shard.transactions.items()
    }
