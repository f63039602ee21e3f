"""A connector's transformations, one behind the other, each under its predicate.

Also the options that the aliases of `transforms` and `predicates` add to a connector's, for forms and validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.config.option import nearest
from ottla.connect.config_def import ConfigDef, Importance, Option, Type, Validator, Width
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugin import KAFKA_VERSION, Plugin, found
from ottla.connect.predicates import PREDICATES, Predicate
from ottla.connect.records import ConnectRecord
from ottla.connect.transforms import TRANSFORMATIONS, Transformation

Given = Mapping[str, Any]
OnFault = Callable[[ConnectRecord, "TransformationStep", ConnectException], None]
"""Takes a record that a step refused; what it raises ends the run."""


@dataclass(frozen=True, slots=True)
class TransformationStep:
    """One transformation, and when it is applied."""

    alias: str
    java_class: str
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def applies(self, record: ConnectRecord) -> bool:
        """True if the step is for this record."""
        return self.predicate is None or self.predicate.test(record) != self.negate


@dataclass(frozen=True, slots=True)
class DescribedPlugin:
    """A transformation or a predicate as a configuration describes it."""

    java_class: str
    options: Mapping[str, Any]
    """Its own options, as they were given."""


@dataclass(frozen=True, slots=True)
class DescribedStep:
    """A step as a configuration describes it, for those who make their own of it."""

    alias: str
    what: DescribedPlugin
    condition: DescribedPlugin | None
    negate: bool


class Chain:
    """All steps of one connector."""

    def __init__(self, given: Given) -> None:
        """Make the steps of a connector's configuration; `ConfigException` names what is wrong with it."""
        predicates = {alias: _made(PREDICATES, "predicates", alias, given)[1] for alias in aliases(given, "predicates")}
        self.steps = tuple(_step(alias, given, predicates) for alias in aliases(given, "transforms"))

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record behind all steps, None where one dropped it; a `ConnectException` where one refused it."""
        return self._run(record, None)

    def apply_all(self, records: Sequence[ConnectRecord], on_fault: OnFault) -> list[ConnectRecord]:
        """The records behind all steps in their order, without those that were dropped or refused."""
        if not self.steps:
            return list(records)
        made = (self._run(record, on_fault) for record in records)
        return [record for record in made if record is not None]

    def _run(self, record: ConnectRecord, on_fault: OnFault | None) -> ConnectRecord | None:
        now: ConnectRecord | None = record
        for step in self.steps:
            assert now is not None
            try:
                now = step.transformation.apply(now) if step.applies(now) else now
            except ConnectException as fault:
                if on_fault is None:
                    raise
                on_fault(record, step, fault)
                return None
            if now is None:
                return None
        return now


def described_steps(given: Given) -> list[DescribedStep]:
    """The steps that a configuration describes; one of which a `Chain` can be made."""
    found_steps = []
    for alias in aliases(given, "transforms"):
        named = ConfigDef(*_CONDITION).parse(_below(given, f"transforms.{alias}."))
        condition = named["predicate"]
        found_steps.append(
            DescribedStep(
                alias,
                _described(TRANSFORMATIONS, "transforms", alias, given),
                None if condition is None else _described(PREDICATES, "predicates", condition, given),
                named["negate"],
            )
        )
    return found_steps


def _described(plugins: Mapping[str, Plugin[Any]], kind: str, alias: str, given: Given) -> DescribedPlugin:
    own = _below(given, f"{kind}.{alias}.")
    return DescribedPlugin(
        found(plugins, own["type"]).java_class, {name: value for name, value in own.items() if name not in _OWN}
    )


def aliases(given: Given, kind: str) -> list[str]:
    """The names in `transforms` or `predicates`, each once."""
    return list(ConfigDef(ALIASES[kind]).parse(given)[kind])


def _distinct_aliases(name: str, names: Any) -> None:
    if names is not None and len(set(names)) != len(names):
        raise ConfigException.of(name, names, "Duplicate alias provided.")


ALIASES: Final = {
    kind: Option(
        kind, Type.LIST, [], Importance.LOW, f"Aliases of the {kind}, in the order in which they are applied.",
        _distinct_aliases, noun, order, Width.LONG, noun,
    )
    for kind, noun, order in (("transforms", "Transforms", 12), ("predicates", "Predicates", 13))
}  # fmt: skip
"""The two options that name further ones."""
_OWN: Final = frozenset({"type", "plugin.version", "predicate", "negate"})


def _below(given: Given, prefix: str) -> dict[str, Any]:
    """The entries whose names begin with a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in given.items() if name.startswith(prefix)}


def _made(plugins: Mapping[str, Plugin[Any]], kind: str, alias: str, given: Given) -> tuple[Plugin[Any], Any]:
    """The plugin of an alias, and one of it with the alias's options."""
    own = _below(given, f"{kind}.{alias}.")
    if not own.get("type"):
        raise ConfigException(f'Missing required configuration "{kind}.{alias}.type" which has no default value.')
    plugin = found(plugins, own["type"])
    return plugin, plugin.make({name: value for name, value in own.items() if name not in _OWN})


def _step(alias: str, given: Given, predicates: Mapping[str, Predicate]) -> TransformationStep:
    plugin, made = _made(TRANSFORMATIONS, "transforms", alias, given)
    named = ConfigDef(*_CONDITION).parse(_below(given, f"transforms.{alias}."))
    predicate = named["predicate"]
    if predicate is not None and predicate not in predicates:
        near = nearest(predicate, predicates)
        raise ConfigException.of(f"transforms.{alias}.predicate", predicate, f"no such alias in predicates{near}")
    if predicate is None and named["negate"]:
        raise ConfigException.of(f"transforms.{alias}.negate", True, "there is no predicate to negate")
    return TransformationStep(alias, plugin.java_class, made, predicates.get(predicate or ""), named["negate"])


_CONDITION: Final = (
    Option("predicate", Type.STRING, None, doc="The alias of the predicate under which the step is applied."),
    Option("negate", Type.BOOLEAN, False, doc="Apply the step where the predicate does not hold."),
)


def alias_options(given: Given) -> ConfigDef:
    """The options that the aliases of a configuration add, one group for each alias."""
    options: list[Option] = []
    for kind, noun, plugins in _KINDS:
        names = given.get(kind) or ""
        chosen = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        for alias in dict.fromkeys(name for name in chosen if name):
            options += _alias(kind, noun, plugins, alias, given)
    return ConfigDef(*options)


_KINDS: Final[tuple[tuple[str, str, Mapping[str, Plugin[Any]]], ...]] = (
    ("transforms", "Transformation", TRANSFORMATIONS),
    ("predicates", "Predicate", PREDICATES),
)


def _alias(kind: str, noun: str, plugins: Mapping[str, Plugin[Any]], alias: str, given: Given) -> list[Option]:
    """An alias's options: its class, its version, and those of the class in the order of their names."""
    prefix, group = f"{kind}.{alias}.", f"{kind.capitalize()}: {alias}"
    name = given.get(f"{prefix}type")
    plugin = None
    if name:
        try:
            plugin = found(plugins, str(name))
        except ConfigException:
            plugin = None  # the check of `type` says so
    version = KAFKA_VERSION if plugin is not None else None
    own = [
        Option(f"{prefix}type", Type.CLASS, importance=Importance.HIGH, doc=f"The class of {alias}.",
               check=_class_of(plugins), group=group, order=0, width=Width.LONG, display=f"{noun} type for {alias}",
               recommended=lambda: sorted(plugins)),
        Option(f"{prefix}plugin.version", Type.STRING, version, Importance.HIGH, "The version of that class.",
               group=group, order=1, width=Width.LONG, display=f"{noun} version for {alias}",
               recommended=lambda: [version] if version else []),
    ]  # fmt: skip
    if plugin is None:
        return own
    more = [*plugin.options, *(_CONDITION if kind == "transforms" else ())]
    for order, option in enumerate(sorted(more, key=lambda option: option.name), 2):
        own.append(embedded(option, prefix, group=group, order=order))
    return own


def embedded(option: Option, prefix: str, **place: Any) -> Option:
    """An option of a plugin as one of the connector that uses it. Its check speaks of the plugin's own name."""
    check = option.check
    short: Validator | None = None if check is None else lambda _, value: check(option.name, value)
    return replace(option, name=prefix + option.name, display=option.display or option.name, check=short, **place)


def _class_of(plugins: Mapping[str, Plugin[Any]]) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            return
        try:
            found(plugins, value)
        except ConfigException as fault:
            raise ConfigException.of(name, value, str(fault)) from None

    return check
