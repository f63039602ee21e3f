"""The lake that a chain makes of a topic does not depend on how the records fell into rounds."""

import itertools

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.in_memory import tmp_path
from tests.lake.driven_rounds import Rounds, documents

from ottla.sinks.lake import steps_of
from ottla.stores import LakeRefused

__all__ = ["tmp_path"]

TRANSFORMS = (
    {"type": "Cast$Value", "spec": "n:int8"},
    {"type": "Cast$Value", "spec": "n:string"},
    {"type": "Cast$Value", "spec": "n:int64,s:int16"},
    {"type": "MaskField$Value", "fields": "n,s", "replacement": "0.5"},
    {"type": "MaskField$Value", "fields": "o,s"},
    {"type": "Flatten$Value", "delimiter": "_"},
    {"type": "ReplaceField$Value", "renames": "n:s"},
    {"type": "ReplaceField$Value", "renames": "n:N,o:p", "exclude": "b"},
    {"type": "HoistField$Value", "field": "all"},
    {"type": "ExtractField$Value", "field": "o"},
    {"type": "InsertField$Value", "offset.field": "at", "static.field": "n", "static.value": "x"},
    {"type": "TimestampConverter$Value", "field": "n", "target.type": "Timestamp"},
    {"type": "Filter"},
)
NUMBERS = st.sampled_from([1, 300, 1.5, 1.0, 1e300, (1 << 53) + 1, None])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "n": NUMBERS,
        "s": st.sampled_from(["12", "x", 7, None]),
        "b": st.booleans(),
        "o": st.fixed_dictionaries({}, optional={"x": NUMBERS, "n": st.just("t")}) | st.none(),
        "o_x": st.just(5),
        "N": st.just(3),
    },
)


def chain(transforms):
    """The steps of a chain; a filter and a mask are for tombstones or for the others."""
    config = {"json": "true", "transforms": ",".join(f"t{at}" for at in range(len(transforms)))}
    for at, transform in enumerate(transforms):
        config |= {f"transforms.t{at}.{name}": text for name, text in transform.items()}
        if transform["type"] in ("Filter", "MaskField$Value"):
            config |= {f"transforms.t{at}.predicate": "p"}
            config |= {f"transforms.t{at}.negate": str(transform["type"] != "Filter").lower()}
    return steps_of({**config, "predicates": "p", "predicates.p.type": "RecordIsTombstone"})


def told(value):
    """A value without nulls, and objects without a member: they tell nothing."""
    if not isinstance(value, dict):
        return value
    found = {name: told(item) for name, item in value.items()}
    return {name: item for name, item in found.items() if item is not None} or None


def rows(lake):
    """The rows; a lake of which none was ever loaded has none."""
    return [told(row) for row in lake.rows()] if any(lake.committed.rows.values()) else []


@pytest.mark.parametrize("form", ["parquet", "delta"])
@given(
    st.lists(st.sampled_from(TRANSFORMS), min_size=1, max_size=2),
    st.lists(FIELDS | st.none(), min_size=2, max_size=8),
    st.sets(st.integers(1, 7), min_size=1),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_cuts_make_one_lake(tmp_path, monkeypatch, form, transforms, values, cuts):
    records, steps = documents(*values), chain(transforms)
    try:
        steps.reading("json").of("t")
    except LakeRefused:
        assume(False)  # one step adds a field, and the other makes a second one of its name
    whole, parts = (
        Rounds(tmp_path / f"lake-{number}", {"format": form, "steps": steps}, monkeypatch)
        for number in itertools.islice(NUMBER, 2)
    )
    whole.load(*records)
    edges = sorted({0, len(records), *(at for at in cuts if at < len(records))})
    for begin, end in itertools.pairwise(edges):
        parts.load(*records[begin:end])
    assert whole.dead.keys() == parts.dead.keys()
    assert rows(whole) == rows(parts)


NUMBER = itertools.count()
