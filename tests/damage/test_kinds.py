"""Each file of a real directory has a kind, and a file without one is an error."""

from __future__ import annotations

import pytest
from tests.damage.harms import HARMS
from tests.damage.kinds import EVERY, KINDS, UnknownFile, broker_of, partition_of, sort_out

from ottla.kernel.ids import TopicPartition

FILES = [
    "broker-1/.lock",
    "broker-1/meta.properties",
    "broker-1/metadata/metadata.db",
    "broker-1/metadata/brokers/1.lock",
    "broker-1/t-0/partition.metadata",
    *(f"broker-1/t-0/{base:020}.{suffix}" for base in (0, 7, 9) for suffix in ("log", "index", "timeindex")),
    *(f"broker-1/t-0/{base:020}.snapshot" for base in (7, 9, 12)),
    f"broker-2/a-b-11/{5:020}.log",
]


def test_segments_are_told_apart_by_their_place_in_the_log() -> None:
    kinds = sort_out(FILES)
    assert kinds["first segment"] == [f"broker-1/t-0/{0:020}.log"]
    assert kinds["closed segment"] == [f"broker-1/t-0/{7:020}.log"]
    assert kinds["active segment"] == [f"broker-1/t-0/{9:020}.log", f"broker-2/a-b-11/{5:020}.log"]
    assert kinds["closed index"] == [f"broker-1/t-0/{base:020}.index" for base in (0, 7)]
    assert kinds["active timeindex"] == [f"broker-1/t-0/{9:020}.timeindex"]
    assert kinds["newest snapshot"] == [f"broker-1/t-0/{12:020}.snapshot"]
    assert kinds["earlier snapshot"] == [f"broker-1/t-0/{base:020}.snapshot" for base in (7, 9)]


def test_directories_are_kinds_too() -> None:
    kinds = sort_out(FILES)
    assert kinds["partition directory"] == ["broker-1/t-0", "broker-2/a-b-11"]
    assert kinds["log directory"] == ["broker-1", "broker-2"]


def test_every_file_has_one_kind_and_every_kind_is_known() -> None:
    kinds = sort_out(FILES)
    assert set(kinds) <= set(KINDS)
    found = [path for kind, paths in kinds.items() if "directory" not in kind for path in paths]
    assert sorted(found) == sorted(FILES)


@pytest.mark.parametrize(
    "path",
    [
        "broker-1/witness",
        "broker-1/t-0/witness",
        "broker-1/metadata/other.db",
        "store/other.db",
        "broker-1/partition.metadata",
        "broker-1/t-0/meta.properties",
        f"broker-1/t-0/{0:020}.log.cleaned",
        f"broker-1/{0:020}.log",
    ],
)
def test_a_file_of_no_kind_is_an_error(path: str) -> None:
    with pytest.raises(UnknownFile, match="has no kind"):
        sort_out([*FILES, path])


def test_a_path_names_its_broker_and_partition() -> None:
    assert partition_of(f"broker-2/a-b-11/{5:020}.log") == TopicPartition("a-b", 11)
    assert partition_of("broker-2/a-b-11") == TopicPartition("a-b", 11)
    assert partition_of("broker-2/port") is None
    assert broker_of("broker-2/a-b-11") == 2
    assert broker_of("store/metadata.db") is None


def test_silence_is_allowed_of_known_damages_and_with_a_reason() -> None:
    assert set(HARMS) == EVERY
    for kind in KINDS.values():
        assert kind.silent | kind.silent_alone | kind.unchecked <= EVERY
        assert bool(kind.silent | kind.silent_alone) == bool(kind.reason), kind.name
