import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.produce import partitioners
from ottla.spark import partitions
from ottla.spark.partitions import choose, murmur2, spread_rows


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_all_keys_at_once_hash_as_one_by_one(keys, cut):
    array = pa.array(keys, pa.binary()).slice(min(cut, len(keys)))
    assert murmur2(array).tolist() == [partitioners.murmur2(key) for key in array.to_pylist()]


def test_a_long_value_takes_no_step_over_arrays_for_each_of_its_words(monkeypatch):
    """Digests of rows hash values too: a value of a megabyte took seconds."""
    steps = []
    word = partitions._word
    monkeypatch.setattr(partitions, "_word", lambda *given: steps.append(1) or word(*given))
    long = [bytes((at * 7 + salt) % 251 for at in range(300_000 + salt)) for salt in range(4)]
    values = [b"short", *long, b"x" * 1024, b"x" * 1025, b"", b"y" * 1031]
    hashed = murmur2(pa.array(values, pa.binary()).slice(1)).tolist()
    assert len(steps) < 1000
    assert hashed == [partitioners.murmur2(value) for value in values[1:]]


def test_many_long_keys_hash_as_one_by_one():
    keys = [b"%06d" % at * 200 for at in range(100)] + [b"%06d" % at * 400 for at in range(20)]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == [partitioners.murmur2(key) for key in keys]


def test_keys_choose_as_java_clients_do_and_the_partition_column_goes_before():
    keys = pa.array([b"a", None, b"ccc", b"dddd"], pa.binary())
    given = pa.array([None, None, 2, None], pa.int32())
    spread = np.array([9, 1, 9, 9], dtype=np.int32)
    expected = [(partitioners.murmur2(key) & 0x7FFFFFFF) % 5 for key in (b"a", b"dddd")]
    assert choose(keys, given, 4, 5, spread).tolist() == [expected[0], 1, 2, expected[1]]


def test_a_partition_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"Invalid partition given with record: 5 is not in the range \[0...5\)"):
        choose(None, pa.array([5], pa.int32()), 1, 5, np.zeros(1, dtype=np.int32))


def test_rows_without_keys_go_to_one_partition_a_batch_long():
    numbers, turn = spread_rows(10, 100.0, 3, 1, 400)
    assert numbers.tolist() == [1, 1, 1, 1, 2, 2, 2, 2, 0, 0]
    assert turn == 1
