"""Our assignors beside Apache Kafka's, on the same groups in the same order of members and topics."""

from __future__ import annotations

import base64
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ottla.groups.range_assignor import assign_range
from ottla.groups.target_assignment import Assignment, Spec, Subscriber, signed_halves
from ottla.groups.uniform_assignor import assign_uniform

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
ASSIGNORS = {"range": assign_range, "uniform": assign_uniform}
GROUPS = 400


def groups(seed: int) -> list[tuple[str, Spec]]:
    """Groups that are assigned afresh, and then again after members came and went and topics grew."""
    chance = random.Random(seed)
    found = []
    for number in range(GROUPS):
        name = ("range", "uniform")[number % 2]
        topics = {chance.randbytes(16): chance.randint(1, 12) for _ in range(chance.randint(1, 5))}
        everybody = frozenset(chance.sample(sorted(topics), chance.randint(1, len(topics))))
        alike = chance.random() < 0.5
        targets: Assignment = {}
        for _ in range(3):
            subscribers = []
            for member in sorted(chance.sample(range(9), chance.randint(1, 9))):
                wanted = everybody if alike else frozenset(
                    chance.sample(sorted(topics), chance.randint(1, len(topics))))  # fmt: skip
                instance = f"i{(member * 7) % 10}" if member % 3 == 0 else None
                subscribers.append(Subscriber(f"m{member}", instance, wanted, targets.get(f"m{member}", {})))
            spec = Spec(tuple(subscribers), dict(topics))
            found.append((name, spec))
            targets = ASSIGNORS[name](spec)
            topics = {topic: count + chance.choice([0, 0, 2]) for topic, count in topics.items()}
    return found


def uuid(topic: bytes) -> str:
    return base64.urlsafe_b64encode(topic).decode().rstrip("=")


def said(name: str, spec: Spec) -> list[str]:
    """The group as Assign.java reads it."""
    lines = [f"topic {uuid(topic)} {count}" for topic, count in spec.partitions.items()]
    for each in spec.subscribers:
        topics = ",".join(uuid(topic) for topic in sorted(each.topics, key=signed_halves))
        held = ";".join(
            f"{uuid(topic)}:{','.join(map(str, sorted(indexes)))}"
            for topic, indexes in sorted(each.target.items(), key=lambda item: signed_halves(item[0]))
        )
        lines.append(f"member {each.member_id} {each.instance_id or ''} {topics} {held}")
    return [*lines, f"assign {name} {'HOMOGENEOUS' if spec.homogeneous else 'HETEROGENEOUS'}"]


def flat(assignment: Assignment) -> set[tuple[str, str, int]]:
    return {
        (member, uuid(topic), index)
        for member, topics in assignment.items()
        for topic, indexes in topics.items()
        for index in indexes
    }


def loads(places: set[tuple[str, str, int]], spec: Spec) -> list[int]:
    """The numbers of partitions that the members have, sorted."""
    counted = Counter(member for member, _, _ in places)
    return sorted(counted[each.member_id] for each in spec.subscribers)


def kept(places: set[tuple[str, str, int]], spec: Spec) -> int:
    """The number of partitions that stay with their member."""
    before = {
        (each.member_id, uuid(topic), index)
        for each in spec.subscribers
        for topic, indexes in each.target.items()
        for index in indexes
    }
    return len(places & before)


def test_the_same_groups_get_the_same_partitions(kafka_libs: Path) -> None:
    """Java takes several topics in the order of a hash table, so `uniform` is then compared for balance and stickiness.

    With different subscriptions only the loads are compared, which may differ by one partition.
    """
    asked = groups(seed=848)
    exact = 0
    for (name, spec), theirs in zip(asked, assigned_by_java(kafka_libs, asked), strict=True):
        ours = flat(ASSIGNORS[name](spec))
        topics = frozenset().union(*(each.topics for each in spec.subscribers))
        exact += ours == theirs
        if name == "range" or (spec.homogeneous and len(topics) == 1):
            assert ours == theirs, (name, spec)
        elif spec.homogeneous:
            assert (loads(ours, spec), kept(ours, spec)) == (loads(theirs, spec), kept(theirs, spec)), spec
        else:
            both = zip(loads(ours, spec), loads(theirs, spec), strict=True)
            assert sum(abs(mine - other) for mine, other in both) <= 2, spec
    assert exact > GROUPS * 2.5, "of three times as many"


def assigned_by_java(libs: Path, asked: list[tuple[str, Spec]]) -> list[set[tuple[str, str, int]]]:
    source = Path(__file__).with_name("Assign.java")
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{libs}/*", str(source)],
        input="\n".join(line for name, spec in asked for line in said(name, spec)),
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answers = []
    for line in done.stdout.splitlines():
        places = (one.split(" ") for one in line.split(";") if one)
        answers.append({(member, topic, int(index)) for member, topic, index in places})
    assert len(answers) == len(asked) == 3 * GROUPS
    return answers
