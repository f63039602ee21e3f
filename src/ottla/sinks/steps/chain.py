"""A connector's transformations as steps of the lake's loader: which of them run on Arrow batches, and the chain. Pure.

The lake keeps the text of its chain, from which any process makes the steps again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import pyarrow as pa

from ottla.config.option import nearest
from ottla.connect.chain import Chain, DescribedPlugin, described_steps
from ottla.connect.errors import ConfigException
from ottla.connect.predicates import PREDICATES
from ottla.connect.transforms import TRANSFORMATIONS
from ottla.connect.transforms.sides import REPLACE_NULL
from ottla.lake.columns.json_columns import no_columns
from ottla.lake.columns.steps import RowSteps, SteppedRecords
from ottla.lake.columns.types import EMPTY, Misfit
from ottla.rows.arrow import row_schema
from ottla.sinks.steps.casts import CastStep
from ottla.sinks.steps.fields import (
    ExtractFieldStep,
    FlattenStep,
    HoistFieldStep,
    InsertFieldStep,
    ReplaceFieldStep,
)
from ottla.sinks.steps.masks import MaskFieldStep
from ottla.sinks.steps.records import DropHeadersStep, FilterStep, HasHeader, IsTombstone, RecordCondition, TopicMatches
from ottla.sinks.steps.rows import Mask, SteppedRows, columns_of, object_of_columns
from ottla.sinks.steps.times import TimestampConverterStep
from ottla.stores.base import LakeRefused

_PACKAGE: Final = "org.apache.kafka.connect.transforms."
_PREDICATES: Final = f"{_PACKAGE}predicates."
_OF_VALUES: Final[tuple[type[ValueStep], ...]] = (
    CastStep, ExtractFieldStep, FlattenStep, HoistFieldStep, InsertFieldStep, MaskFieldStep, ReplaceFieldStep,
    TimestampConverterStep,
)  # fmt: skip
OF_VALUES: Final[Mapping[str, type[ValueStep]]] = {
    f"{_PACKAGE}{kind.__name__.removesuffix('Step')}$Value": kind for kind in _OF_VALUES
}
"""Java class -> the step that changes values as it does."""
OF_RECORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], RecordStep]]] = {
    f"{_PACKAGE}DropHeaders": DropHeadersStep,
    f"{_PACKAGE}Filter": FilterStep,
}
"""Java class -> the step over whole records."""
_CONDITIONS: Final[Mapping[str, Callable[[Mapping[str, Any]], RecordCondition]]] = {
    f"{_PREDICATES}HasHeaderKey": lambda options: HasHeader(options["name"]),
    f"{_PREDICATES}RecordIsTombstone": lambda options: IsTombstone(),
    f"{_PREDICATES}TopicNameMatches": lambda options: TopicMatches(options["pattern"]),
}
MOST_CHAINS: Final = 1024
"""Chains that a process keeps, one for each topic."""
_RECORD: Final = row_schema(("value", "headers", "partition", "offset", "timestamp"))


class ValueStep(Protocol):
    """Changes the values of records."""

    keeps_nulls: ClassVar[bool]
    """True if a record without a value has none afterwards."""

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        """Take the typed options; `plain` values had no schema."""

    def change(self, rows: SteppedRows) -> None:
        """Change all of them. Misfit where values of their type cannot be changed."""


class RecordStep(Protocol):
    """Does something to whole records."""

    def apply(self, rows: SteppedRows, chosen: Mask) -> None:
        """Do it to the chosen ones."""


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step, and the records that it is for: those for which a condition holds, or does not."""

    name: str
    on_values: ValueStep | None
    on_records: RecordStep | None
    condition: RecordCondition | None
    negate: bool

    def apply(self, rows: SteppedRows) -> None:
        """Do the step."""
        condition = self.condition
        chosen = np.ones(len(rows), dtype=np.bool_) if condition is None else condition.holds(rows) != self.negate
        if self.on_records is not None:
            self.on_records.apply(rows, chosen)
            return
        assert self.on_values is not None, "a step is on values or on records"
        if condition is None:
            self.on_values.change(rows)
            return
        by_tombstone = isinstance(condition, IsTombstone)
        if by_tombstone and self.negate and chosen.all():
            self.on_values.change(rows)
            return
        part = rows.part(chosen)
        self.on_values.change(part)
        rows.take_back(
            part,
            chosen,
            others_are_null=by_tombstone and self.negate,
            part_is_null=by_tombstone and not self.negate and self.on_values.keeps_nulls,
            what=self.name,
        )


@dataclass(frozen=True, slots=True)
class ChainSteps(RowSteps):
    """The steps of a chain, once their topic and the kind of values are known."""

    kind: str = ""
    topic: str = ""
    _steps: tuple[ChainStep, ...] = field(default=(), compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return chain_of_text, (self.text, self.kind, self.topic)

    def of(self, topic: str) -> RowSteps:
        """The steps for a topic, without those that its name leaves out."""
        return chain_of_text(self.text, self.kind, topic)

    def reading(self, kind: str) -> RowSteps:
        """The steps for this kind of values; LakeRefused for those that change values which make no columns."""
        if kind in ("bytes", "text") and (named := [each.name for each in self._steps if each.on_values is not None]):
            raise LakeRefused(f"{named[0]} changes fields, and values of {kind} have none: give --json or --values")
        return chain_of_text(self.text, kind, self.topic)

    def columns(self, columns: pa.Schema) -> pa.Schema:
        """The columns of rows, given those of values; Misfit where the steps cannot be done with these."""
        if not self.changes_values:
            return columns
        records = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in _RECORD], schema=_RECORD)
        table = columns.empty_table() if columns.names else no_columns(0)
        found = self.apply(table, records).values
        assert found is not None, "columns go in"
        return found.schema

    def apply(self, values: pa.Table | None, records: pa.RecordBatch) -> SteppedRecords:
        """Do the steps."""
        value = records.column("value")
        if values is not None and self.changes_values:
            value = object_of_columns(values, np.asarray(value.is_null()))
        rows = SteppedRows.of(self.topic, records, value)
        for step in self._steps:
            step.apply(rows)
        if values is not None and self.changes_values:
            values = columns_of(rows.value)
        return SteppedRecords(values, rows.headers, rows.missing, rows.filtered, sorted(rows.faults))

    @property
    def changes_values(self) -> bool:
        """True if a step changes the fields of values, so that these must make columns."""
        return any(each.on_values is not None for each in self._steps)


def chain_steps(config: Mapping[str, str]) -> ChainSteps:
    """The steps of a connector's configuration. ConfigException for what is wrong with it, or has no Arrow form."""
    Chain(config)
    steps = described_steps(config)
    for each in steps:
        name = each.what.java_class
        if name not in OF_VALUES and name not in OF_RECORDS:
            known = sorted(known.removeprefix(_PACKAGE) for known in (*OF_RECORDS, *OF_VALUES))
            raise ConfigException.of(
                f"transforms.{each.alias}.type", name,
                f"the lake sink does transformations on Arrow batches, and this one has no such form"
                f"{nearest(name.removeprefix(_PACKAGE), known)}; there are {', '.join(known)}",
            )  # fmt: skip
        if str(each.what.options.get(REPLACE_NULL.name, "false")).lower() == "true":
            raise ConfigException.of(
                f"transforms.{each.alias}.{REPLACE_NULL.name}", True,
                "the columns of a lake have no defaults, and a null stays null: leave it out, or say false",
            )  # fmt: skip
    told = [
        [_told(each.what), None if each.condition is None else _told(each.condition), each.negate] for each in steps
    ]
    return chain_of_text(json.dumps(told, sort_keys=True))


@functools.lru_cache(MOST_CHAINS)
def chain_of_text(text: str, kind: str = "", topic: str = "") -> ChainSteps:
    """The steps of a chain by its text, for values of this kind; those that a topic's name leaves out are gone.

    LakeRefused where they contradict each other, so that no value has columns.
    """
    made = []
    for (short, options), condition, negated in json.loads(text):
        name, only_when, negate = _PACKAGE + short, None, negated
        if condition is not None:
            predicate = _PREDICATES + condition[0]
            only_when = _CONDITIONS[predicate](PREDICATES[predicate].options.parse(condition[1]))
        if topic and isinstance(only_when, TopicMatches):
            if only_when.matches(topic) == negate:
                continue
            only_when, negate = None, False
        given = TRANSFORMATIONS[name].options.parse(options)
        values = OF_VALUES[name](given, plain=kind == "json") if name in OF_VALUES else None
        records = OF_RECORDS[name](given) if name in OF_RECORDS else None
        made.append(ChainStep(short, values, records, only_when, negate))
    steps = ChainSteps(text, kind, topic, tuple(made))
    if kind and topic:
        try:
            steps.columns(EMPTY)
        except Misfit as fault:
            raise LakeRefused(f"the transformations contradict each other: {fault}") from None
    return steps


def _told(plugin: DescribedPlugin) -> list[Any]:
    return [plugin.java_class.removeprefix(_PREDICATES).removeprefix(_PACKAGE), dict(plugin.options)]
