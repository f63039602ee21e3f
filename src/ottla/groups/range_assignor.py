"""The assignor `range`: of each topic, a run of consecutive partitions for each of its subscribers.

Topics with the same subscribers and number of partitions stay together: a member gets the same partitions of each.
"""

from __future__ import annotations

from ottla.groups.target_assignment import Assignment, Spec, in_order


def assign_range(spec: Spec) -> Assignment:
    """Partitions by ranges; the first subscribers have one more where the division leaves a rest."""
    ordered = in_order(spec.subscribers)
    assignment: Assignment = {each.member_id: {} for each in ordered}
    for topic, count in sorted(spec.partitions.items()):
        readers = [each.member_id for each in ordered if topic in each.topics]
        if not readers:
            continue
        share, rest = divmod(count, len(readers))
        start = 0
        for number, member_id in enumerate(readers):
            end = start + share + (number < rest)
            if end > start:
                assignment[member_id][topic] = frozenset(range(start, end))
            start = end
    return assignment
