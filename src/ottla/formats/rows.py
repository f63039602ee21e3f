"""The result of reading with one schema: an array of the rows that were good, and what is wrong with the others."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ottla.formats.arrays import Mask


@dataclass(frozen=True, slots=True)
class ValueBlock:
    """One value per good row, which rows those are, and why others could not be read."""

    array: pa.Array
    good: Mask
    faults: list[tuple[int, str]]
