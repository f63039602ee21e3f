"""Answers to DescribeConfigs: every option with its value, where it came from, and what it would be otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.option import Option, OptionKind, OptionSet
from ottla.config.resolve import ConfigLayer, Layers
from ottla.config.topic import TopicConfig

_SAME_TIME = {
    synonyms[0].name: [one.name for one in synonyms]
    for synonyms in (declared.synonyms for declared in TopicConfig.OPTIONS if len(declared.synonyms) > 1)
}
"""Broker options in the finest unit, with those that say the same in coarser ones."""


REPLICA_TROUBLES = "ottla.replica.troubles"
"""No option: what is wrong with a broker's replicas, as JSON, for those who ask that broker for it by this name."""


RECORD_DECODER = "ottla.record.decoder"
"""No option: whether a broker has the compiled part, for those who ask it by this name."""


BROKER_LOAD = "ottla.broker.load"
"""No option: bytes in and out of a broker and the lag of its followers, as JSON, for those who ask it by this name."""


BROKER_CLOCK = "ottla.broker.clock"
"""No option: the time by a broker, and how far its clock is in doubt, as JSON, for those who ask it by this name."""


class DescribedSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigLayer


class DescribedOption(NamedTuple):
    """One option of one resource."""

    name: str
    value: str | None
    source: ConfigLayer
    sensitive: bool
    read_only: bool
    kind: OptionKind
    synonyms: tuple[DescribedSynonym, ...]
    doc: str


def a_state(name: str, value: str, doc: str) -> DescribedOption:
    """Something that a broker says of itself beside its options."""
    return DescribedOption(name, value, ConfigLayer.DEFAULT_CONFIG, False, True, OptionKind.STRING, (), doc)


def describe_topic(
    overrides: Mapping[str, str], layers: Layers, names: Iterable[str] | None = None
) -> list[DescribedOption]:
    """Every option of a topic, or those named."""
    return _describe_set(layers.topic(overrides), overrides, ConfigLayer.DYNAMIC_TOPIC_CONFIG, layers, names)


def describe_group(
    overrides: Mapping[str, str], layers: Layers, names: Iterable[str] | None = None
) -> list[DescribedOption]:
    """Every option of a group, or those named."""
    return _describe_set(layers.group(overrides), overrides, ConfigLayer.GROUP_CONFIG, layers, names)


def describe_client_metrics(
    texts: Mapping[str, str], layers: Layers, names: Iterable[str] | None = None
) -> list[DescribedOption]:
    """Every option of a subscription to clients' metrics, or those named."""
    return _describe_set(ClientMetricsConfig.of_texts(texts), texts, ConfigLayer.CLIENT_METRICS_CONFIG, layers, names)


def describe_broker(layers: Layers, names: Iterable[str] | None = None) -> list[DescribedOption]:
    """Every option of this broker, or those named; those in effect, its dynamic ones among them.

    Options that Kafka calls internal are left out unless they are named or somebody has set them.
    """
    options = _broker_options()
    hidden = () if names is not None else [one for one in options.values() if one.internal and layers.given(one.name)]
    return [
        _described(declared, _broker_synonyms(declared, layers), read_only=declared.scope.value == "read-only")
        for declared in sorted([*_wanted(options.values(), names), *hidden], key=lambda one: one.name)
    ]


def describe_broker_defaults(layers: Layers, names: Iterable[str] | None = None) -> list[DescribedOption]:
    """The options that were set for all brokers dynamically, and nothing else."""
    found = []
    for declared in _wanted(_broker_options().values(), names):
        if declared.name in layers.default_dynamic:
            synonym = DescribedSynonym(
                declared.name, layers.default_dynamic[declared.name], ConfigLayer.DYNAMIC_DEFAULT_BROKER_CONFIG
            )
            found.append(_described(declared, [synonym], read_only=declared.scope.value == "read-only"))
    return found


def _describe_set(
    config: OptionSet,
    overrides: Mapping[str, str],
    own: ConfigLayer,
    layers: Layers,
    names: Iterable[str] | None,
) -> list[DescribedOption]:
    found = []
    for declared in _wanted(type(config).OPTIONS, names):
        synonyms = _broker_synonyms_of(declared, layers)
        if not declared.synonyms and own is not ConfigLayer.DYNAMIC_TOPIC_CONFIG:
            synonyms = [DescribedSynonym(declared.name, declared.text(declared.default), ConfigLayer.DEFAULT_CONFIG)]
        if declared.name in overrides:
            text = declared.text(declared.parse(overrides[declared.name]))
            synonyms.insert(0, DescribedSynonym(declared.name, text, own))
        described = _described(declared, synonyms, read_only=False)
        found.append(described._replace(value=text_of(config, declared)))
    return found


def text_of(config: OptionSet, declared: Option) -> str | None:
    return None if declared.sensitive else declared.text(config.value(declared.name))


def _broker_synonyms_of(declared: Option, layers: Layers) -> list[DescribedSynonym]:
    """The broker options that give a topic or group option its value; without one, its own default."""
    if not declared.synonyms:
        return []
    return _said([synonym.name for synonym in declared.synonyms], layers)


def _broker_synonyms(declared: Option, layers: Layers) -> list[DescribedSynonym]:
    return _said(_SAME_TIME.get(declared.name, [declared.name]), layers)


def _said(names: list[str], layers: Layers) -> list[DescribedSynonym]:
    """The values given under any of the names, strongest source first, defaults last.

    Where nothing was said, Apache Kafka leaves out the defaults of other names than the first: so does this.
    """
    options = _broker_options()
    given = [DescribedSynonym(name, text, source) for name in names for source, text in layers.given(name)]
    given.sort(key=lambda synonym: synonym.source)
    defaults = [
        DescribedSynonym(name, options[name].text(options[name].default), ConfigLayer.DEFAULT_CONFIG)
        for name in names
        if options[name].default is not None and (given or name == names[0])
    ]
    return given + defaults


def _described(declared: Option, synonyms: list[DescribedSynonym], *, read_only: bool) -> DescribedOption:
    if declared.sensitive:
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    first = synonyms[0] if synonyms else DescribedSynonym(declared.name, None, ConfigLayer.DEFAULT_CONFIG)
    return DescribedOption(
        declared.name, first.value, first.source, declared.sensitive, read_only, declared.kind, tuple(synonyms),
        declared.doc,
    )  # fmt: skip


def _wanted(options: Iterable[Option], names: Iterable[str] | None) -> list[Option]:
    """The options named, or all except those that Kafka calls internal."""
    if names is None:
        return sorted((declared for declared in options if not declared.internal), key=lambda declared: declared.name)
    wanted = set(names)
    return sorted((declared for declared in options if declared.name in wanted), key=lambda declared: declared.name)


def _broker_options() -> Mapping[str, Option]:
    from ottla.config.known import broker_options

    return broker_options()
