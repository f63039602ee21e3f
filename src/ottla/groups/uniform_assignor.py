"""The assignor `uniform`: loads as equal as subscriptions let them be, and as few moves as that takes.

Where all members read the same topics the quota of each is known beforehand; else partitions go to the least loaded,
and loads are balanced topic by topic afterwards. Members are taken in the order of their ids, topics in that of theirs,
where Kafka follows the order of Java's hash tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.groups.target_assignment import Assignment, Spec, Subscriber, java_order, signed_halves

_MOST_ROUNDS = 16


def assign_uniform(spec: Spec) -> Assignment:
    if not spec.subscribers:
        return {}
    return _Homogeneous(spec).assign() if spec.homogeneous else _Heterogeneous(spec).assign()


def _by_id(spec: Spec) -> list[Subscriber]:
    return sorted(spec.subscribers, key=lambda each: java_order(each.member_id))


class _Homogeneous:
    """Assigns if all members read the same topics: each keeps partitions up to its quota, free ones fill the rest."""

    def __init__(self, spec: Spec) -> None:
        self._members = _by_id(spec)
        topics = self._members[0].topics
        self._partitions = {
            topic: spec.partitions[topic] for topic in sorted(topics & spec.partitions.keys(), key=signed_halves)
        }
        total = sum(self._partitions.values())
        self._quota, self._extra = divmod(total, len(self._members))
        self._assigned: dict[str, dict[bytes, set[int]]] = {each.member_id: {} for each in self._members}
        self._taken: dict[bytes, set[int]] = {topic: set() for topic in self._partitions}
        """Kept or freed partitions: in a target that was written in part, two members may name the same one."""

    def assign(self) -> Assignment:
        unassigned = list(self._never_assigned())
        unfilled: list[tuple[str, int]] = []
        left = len(self._members)
        for member in self._members:
            allowance = self._keep(member, unassigned, left)
            if allowance:
                unfilled.append((member.member_id, allowance))
            left -= 1
        free = iter(unassigned)
        for member_id, allowance in unfilled:
            for _ in range(allowance):
                topic, index = next(free)
                self._assigned[member_id].setdefault(topic, set()).add(index)
        return {
            member_id: {topic: frozenset(indexes) for topic, indexes in topics.items()}
            for member_id, topics in self._assigned.items()
        }

    def _never_assigned(self) -> Iterator[tuple[bytes, int]]:
        """Partitions that no member had in the last target."""
        held: dict[bytes, set[int]] = {}
        for member in self._members:
            for topic, indexes in member.target.items():
                held.setdefault(topic, set()).update(indexes)
        for topic, count in self._partitions.items():
            for index in range(count):
                if index not in held.get(topic, ()):
                    yield topic, index

    def _keep(self, member: Subscriber, unassigned: list[tuple[bytes, int]], left: int) -> int:
        """Let a member keep partitions up to its quota; return the number for which it has room left."""
        has_extra = self._extra > 0
        allowance = self._quota + has_extra
        mine = self._assigned[member.member_id]
        for topic, indexes in sorted(member.target.items(), key=lambda item: signed_halves(item[0])):
            count = self._partitions.get(topic)
            if count is None:
                continue
            for index in sorted(indexes - self._taken[topic]):
                if index >= count:
                    continue
                self._taken[topic].add(index)
                if allowance:
                    mine.setdefault(topic, set()).add(index)
                    allowance -= 1
                else:
                    unassigned.append((topic, index))
        if allowance and has_extra and left > self._extra:
            has_extra = False  # another member can have it without a move
            allowance -= 1
        self._extra -= has_extra
        return allowance


class _Heterogeneous:
    """Assigns if members read different topics: each topic's partitions go to the least loaded, then balance."""

    def __init__(self, spec: Spec) -> None:
        self._members = _by_id(spec)
        self._readers: dict[bytes, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic in member.topics & spec.partitions.keys():
                self._readers.setdefault(topic, []).append(number)
        self._partitions = spec.partitions
        self._order = sorted(
            self._readers,
            key=lambda topic: (
                -(spec.partitions[topic] / len(self._readers[topic])),
                len(self._readers[topic]),
                signed_halves(topic),
            ),
        )
        self._owner = {topic: [-1] * spec.partitions[topic] for topic in self._order}
        self._load = [0] * len(self._members)

    def assign(self) -> Assignment:
        self._keep()
        for topic in self._order:
            self._fill(topic)
        self._balance()
        found: dict[str, dict[bytes, set[int]]] = {member.member_id: {} for member in self._members}
        for topic, owners in self._owner.items():
            for index, owner in enumerate(owners):
                found[self._members[owner].member_id].setdefault(topic, set()).add(index)
        return {
            member_id: {topic: frozenset(indexes) for topic, indexes in topics.items()}
            for member_id, topics in found.items()
        }

    def _keep(self) -> None:
        """Let members keep their targets, as far as they still read the topics."""
        for number, member in enumerate(self._members):
            for topic, indexes in member.target.items():
                if topic not in member.topics or topic not in self._owner:
                    continue
                for index in indexes:
                    if index < len(self._owner[topic]) and self._owner[topic][index] == -1:
                        self._owner[topic][index] = number
                        self._load[number] += 1

    def _fill(self, topic: bytes) -> None:
        """Hand out the free partitions of a topic, level by level of load."""
        free = [index for index, owner in enumerate(self._owner[topic]) if owner == -1]
        readers = sorted(self._readers[topic], key=lambda number: self._load[number])
        level, place = 1, 0
        while place < len(free):
            # Below `level`, all have equal loads: one each, until the next member is as low as they are.
            while level < len(readers) and self._load[readers[level]] == self._load[readers[0]]:
                level += 1
            for number in readers[:level]:
                if place == len(free):
                    return
                self._give(topic, free[place], number)
                place += 1

    def _balance(self) -> None:
        """Move partitions from the most to the least loaded readers of a topic, until a whole round moves nothing."""
        shared = [topic for topic in self._order if len(self._readers[topic]) > 1]
        still = 0
        for _ in range(_MOST_ROUNDS):
            for topic in shared:
                still = 0 if self._balance_topic(topic) else still + 1
                if still >= len(shared):
                    return

    def _balance_topic(self, topic: bytes) -> bool:
        """Even out the loads of a topic's readers as far as its own partitions go; True where something moved."""
        held: dict[int, list[int]] = {}
        for index, owner in enumerate(self._owner[topic]):
            held.setdefault(owner, []).append(index)
        readers = sorted(self._readers[topic], key=lambda number: (self._load[number], number))
        moved = False
        while True:
            least = min(readers, key=lambda number: (self._load[number], number))
            givers = [number for number in readers if held.get(number)]
            most = max(givers, key=lambda number: (self._load[number], number), default=None)
            if most is None or self._load[most] - self._load[least] <= 1:
                return moved
            index = held[most].pop()
            held.setdefault(least, []).append(index)
            held[least].sort()
            self._load[most] -= 1
            self._give(topic, index, least)
            moved = True

    def _give(self, topic: bytes, index: int, number: int) -> None:
        self._owner[topic][index] = number
        self._load[number] += 1
