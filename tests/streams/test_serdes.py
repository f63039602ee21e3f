"""Serdes write what Kafka's write, and refuse what they cannot hold."""

from __future__ import annotations

import pytest

from ottla.streams import FLOAT64, INT16, INT32, INT64, JSON, TEXT, SerdeError, Windowed
from ottla.streams.serdes import changes, session_windowed, time_windowed
from ottla.streams.values import Change


def test_numbers_are_big_endian() -> None:
    assert INT64.write(1) == b"\0" * 7 + b"\1"
    assert INT32.write(-2) == b"\xff\xff\xff\xfe"
    assert INT16.write(258) == b"\1\2"
    assert FLOAT64.write(1.0) == bytes.fromhex("3ff0000000000000")


def test_keys_of_windows_end_with_their_times() -> None:
    times = time_windowed(TEXT, 10)
    assert times.write(Windowed("k", 5, 15)) == b"k" + b"\0" * 7 + b"\5"
    assert times.read(times.write(Windowed("k", 5, 15))) == Windowed("k", 5, 15)
    session = session_windowed(TEXT)
    assert session.write(Windowed("k", 5, 9)) == b"k" + b"\0" * 7 + b"\x09" + b"\0" * 7 + b"\5"
    assert session.read(session.write(Windowed("k", 5, 9))) == Windowed("k", 5, 9)


@pytest.mark.parametrize("change", [Change("n", "o"), Change(None, "o"), Change("n", None, False), Change("", "")])
def test_a_change_survives_its_repartition_topic(change: Change) -> None:
    assert changes(TEXT).read(changes(TEXT).write(change)) == change


@pytest.mark.parametrize(
    ("serde", "value"), [(TEXT, 5), (INT64, 1.0), (INT64, True), (INT16, 40000), (JSON, {1, 2}), (JSON, float("nan"))]
)
def test_a_value_of_another_kind_is_refused_by_name(serde: object, value: object) -> None:
    with pytest.raises(SerdeError, match="cannot write"):
        serde.to_bytes(value)  # type: ignore[attr-defined]
