"""Compares a copy with its original: in each partition the same values, each once, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

Values = Mapping[bytes, Sequence[bytes]]
_SHOWN = 5


def differences(source: Values, target: Values) -> list[str]:
    """A line for each partition that differs, with what is lost, doubled, from elsewhere or out of order."""
    found = []
    for key in sorted(source.keys() | target.keys()):
        wanted, there = source.get(key, ()), target.get(key, ())
        if list(wanted) != list(there):
            found.append(f"{key.decode()}: {_difference(wanted, there)}")
    return found


def _difference(wanted: Sequence[bytes], there: Sequence[bytes]) -> str:
    lost, more = Counter(wanted) - Counter(there), Counter(there) - Counter(wanted)
    doubled = {value: count for value, count in more.items() if value in wanted}
    strange = {value: count for value, count in more.items() if value not in wanted}
    parts = [
        f"{_some(values)} {word}"
        for word, values in (("lost", lost), ("twice", doubled), ("strange", strange))
        if values
    ]
    return "; ".join(parts) if parts else "the same values in another order"


def _some(values: Mapping[bytes, int]) -> str:
    names = ", ".join(value.decode(errors="replace") for value in sorted(values)[:_SHOWN])
    return f"{names} and {len(values) - _SHOWN} more" if len(values) > _SHOWN else names
