"""Steps between the reading of records' values and their rows, as a lake's loader sees them.

A lake without steps has the values as they are read. Connectors give steps of their own, see `ottla.sinks.steps`: they
are part of the lake's shape, so that all its rows went through the same. The lake's state keeps columns as values have
them, and those of rows follow from them, so that types widen, and fields come, as they do without steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(slots=True)
class SteppedRecords:
    """Records behind the steps, as many as before and in their order."""

    values: pa.Table | None
    """The columns of values; None where values stay bytes."""
    headers: pa.Array
    tombstones: Mask
    filtered: Mask
    """The records that a step dropped: they are counted, and become no rows."""
    faults: list[tuple[int, str]]
    """The records that a step refused, with reasons."""


@dataclass(frozen=True, slots=True)
class RowSteps:
    """No steps, or those of a lake of which only their text is known."""

    text: str = ""
    """The steps in words that a lake keeps; empty for none."""

    def of(self, topic: str) -> RowSteps:
        """The steps for the records of one topic."""
        return self

    def reading(self, kind: str) -> RowSteps:
        """The steps for this kind of values, see `values.KINDS`; LakeRefused where they have no place there."""
        return self

    def columns(self, columns: pa.Schema) -> pa.Schema:
        """The columns of rows, given those of values; Misfit where the steps cannot be done with these."""
        return columns

    def apply(self, values: pa.Table | None, records: pa.RecordBatch) -> SteppedRecords:
        """Do the steps. `values` are the columns of the values of these records, None where values stay bytes."""
        raise NotImplementedError


NO_STEPS = RowSteps()
