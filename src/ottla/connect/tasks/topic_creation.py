"""Topics that a source makes itself, by the groups of `topic.creation.*`: the first group that includes a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.admin.admin import NewTopic
from ottla.config.option import nearest
from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.errors import ConfigException
from ottla.connect.java.regex import compiled

PREFIX: Final = "topic.creation."
_DEFAULT: Final = "default"
_SIZES: Final = ConfigDef(Option("partitions", Type.INT, -1), Option("replication.factor", Type.SHORT, -1))
_CHOICE: Final = ConfigDef(Option("include", Type.LIST, []), Option("exclude", Type.LIST, []))


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics that are made alike."""

    include: tuple[str, ...]
    """Java regular expressions for whole names; none: all."""
    exclude: tuple[str, ...]
    partitions: int
    replicas: int
    configs: dict[str, str] = field(default_factory=dict)

    def has(self, topic: str) -> bool:
        """True if the group is for this topic."""
        taken = not self.include or any(compiled(each).fullmatch(topic) for each in self.include)
        return taken and not any(compiled(each).fullmatch(topic) for each in self.exclude)


def groups_of(config: Mapping[str, str]) -> list[TopicGroup]:
    """The groups in their order, `default` last; none where the connector leaves topics to the broker."""
    given = {name: value for name, value in config.items() if name.startswith(PREFIX)}
    named = [each.strip() for each in given.pop(f"{PREFIX}groups", "").split(",") if each.strip()]
    names = [*named, _DEFAULT]
    for option in given:
        group = option.removeprefix(PREFIX).partition(".")[0]
        if group not in names:
            raise ConfigException(f"{option}: topic.creation.groups has no group {group}{nearest(group, names)}")
    if not given and not named:
        return []
    return [_group(name, given) for name in names]


def topic_for(groups: list[TopicGroup], topic: str) -> NewTopic | None:
    """The topic to make, None where it is left to the broker."""
    group = next((each for each in groups if each.has(topic)), None)
    return None if group is None else NewTopic(topic, group.partitions, group.replicas, dict(group.configs))


def _group(name: str, given: Mapping[str, str]) -> TopicGroup:
    prefix = f"{PREFIX}{name}."
    own = {option[len(prefix) :]: value for option, value in given.items() if option.startswith(prefix)}
    for needed in _SIZES.options if name == _DEFAULT else ():
        if needed not in own:
            raise ConfigException(f'Missing required configuration "{prefix}{needed}" which has no default value.')
    if name == _DEFAULT and (wrong := own.keys() & _CHOICE.options.keys()):
        raise ConfigException(f"{prefix}{min(wrong)}: the group default is for all topics that no other group has")
    sizes, choice = _SIZES.parse(own), _CHOICE.parse(own)
    for pattern in (*choice["include"], *choice["exclude"]):
        try:
            compiled(pattern)
        except ValueError as fault:
            raise ConfigException(f"{prefix}: Invalid regex: {fault}") from None
    configs = {key: value for key, value in own.items() if key not in {**_SIZES.options, **_CHOICE.options}}
    if min(sizes.values()) < -1 or 0 in sizes.values():
        raise ConfigException(
            f"{prefix}partitions and {prefix}replication.factor are at least 1, or -1 for the broker's"
        )
    return TopicGroup(
        tuple(choice["include"]), tuple(choice["exclude"]), sizes["partitions"], sizes["replication.factor"], configs
    )
