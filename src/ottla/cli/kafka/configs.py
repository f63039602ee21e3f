"""`kafka-configs`: read and change configurations of topics, brokers, groups, client metrics, broker loggers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.connect import admin_from, read_properties
from ottla.cli.faults import Misuse
from ottla.cli.javamap import hash_order, string_hash
from ottla.cli.kafka import configs_of_clients
from ottla.cli.kafka.java_errors import java
from ottla.cli.option_values import where_they_fit
from ottla.cli.options import Given, Option, Parser
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from ottla.client.admin.admin import ConfigOperation
    from ottla.client.blocking.admin import Admin
    from ottla.messages.describe_configs import DescribeConfigsResourceResult

_TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
_SHORT = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "group": "groups",
    "client-metrics": "client-metrics",
}
_DEFAULTS = {
    "broker-defaults": "brokers",
    "client-defaults": "clients",
    "user-defaults": "users",
    "ip-defaults": "ips",
}

PARSER = Parser(
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics "
    "or group",
    [
        Option("bootstrap-server", "The brokers to connect to.", "server to connect to"),
        Option("command-config", "Property file with client options.", "command config property file"),
        Option("describe", "Show configurations."),
        Option("alter", "Change configurations."),
        Option("all", "Also those that were never set."),
        Option("entity-type", f"One of {', '.join(_TYPES)}.", ""),
        Option("entity-name", "The topic, broker id, group...", ""),
        Option("entity-default", "The defaults for all of a type."),
        Option("add-config", "k1=v1,k2=[v1,v2]: values to set.", ""),
        Option("add-config-file", "Properties file of values to set.", ""),
        Option("delete-config", "Keys to take back, with commas.", ""),
        *(Option(name, f"Short for --entity-type {kind} --entity-name.", "") for name, kind in _SHORT.items()),
        *(Option(name, f"Short for --entity-type {kind} --entity-default.") for name, kind in _DEFAULTS.items()),
    ],
)


class Entity(NamedTuple):
    """A resource and its type; `name` None: all of the type, "": the default."""

    kind: str
    name: str | None

    @property
    def noun(self) -> str:
        return self.kind.removesuffix("s") if self.kind != "client-metrics" else self.kind


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    try:
        kinds, names = _named(given)
        if not set(kinds).isdisjoint(configs_of_clients.PART_OF):
            return _of_clients(given, kinds, names)
        entity = _entity(given, kinds, names)
        with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
            if "alter" in given:
                _alter(admin, given, entity)
            else:
                _describe(admin, given, entity)
    except Misuse as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    except (ClientError, ApiError) as fault:
        sys.stdout.flush()
        sys.stderr.write(f"Error while executing config command with args '{' '.join(arguments)}'\n{java(fault)}\n")
        return 1
    return 0


def _of_clients(given: Given, kinds: list[str], names: list[str]) -> int:
    """Describe or change quotas and users."""
    altered = "alter" in given
    if "entity-default" in given and len(names) > 1:
        raise Misuse("With several entity types write --user-defaults or --client-defaults for --entity-default")
    configs_of_clients.check(kinds, names, altered=altered)
    if altered:
        _has_edits(given)
    with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
        if altered:
            configs_of_clients.alter(admin, kinds, names, _added(given), _deleted(given))
        else:
            configs_of_clients.describe(admin, kinds, names)
    return 0


def _named(given: Given) -> tuple[list[str], list[str]]:
    """The types and the names of the entities that the options mean; Misuse in Kafka's words."""
    if sum(action in given for action in ("describe", "alter")) != 1:
        PARSER.usage("Command must include exactly one action: --describe, --alter")
    if "bootstrap-server" not in given:
        raise Misuse("--bootstrap-server must be specified: brokers are their own controllers")
    kinds = list(given.all("entity-type"))
    names: list[str] = list(given.all("entity-name"))
    if "entity-default" in given:
        names.append("")
    for short, kind in _SHORT.items():
        if short in given:
            kinds.append(kind)
            names.append(given.need(short))
    for short, kind in _DEFAULTS.items():
        if short in given:
            kinds.append(kind)
            names.append("")
    if not kinds:
        raise Misuse("At least one entity type must be specified")
    for kind in kinds:
        if kind not in _TYPES:
            raise Misuse(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(_TYPES)} with a "
                "--bootstrap-server argument"
            )
    return kinds, names


def _entity(given: Given, kinds: list[str], names: list[str]) -> Entity:
    if len(kinds) > 1:
        raise Misuse(f"Only one entity type may be given, not {' '.join(kinds)}")
    entity = Entity(kinds[0], names[0] if names else None)
    if "alter" in given:
        if entity.name is None or (not entity.name and entity.kind != "brokers"):
            raise Misuse(f"An entity name must be specified with --alter of {', '.join(kinds)}")
        _has_edits(given)
    if entity.kind == "brokers" and entity.name and not entity.name.isdecimal():
        raise Misuse(f"The entity name for brokers must be a valid integer broker id, but it is: {entity.name}")
    return entity


def _has_edits(given: Given) -> None:
    if not any(name in given for name in ("add-config", "add-config-file", "delete-config")):
        raise Misuse(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if "add-config" in given and "add-config-file" in given:
        raise Misuse("Only one of --add-config or --add-config-file must be specified")


def _added(given: Given) -> dict[str, str]:
    if "add-config-file" in given:
        return read_properties(given.need("add-config-file"))
    return parse_added(given.all("add-config"))


def _deleted(given: Given) -> list[str]:
    return [name.strip() for text in given.all("delete-config") for name in text.split(",") if name.strip()]


def resource_type(kind: str) -> int:
    from ottla.client.admin.admin import ResourceType

    return {
        "topics": ResourceType.TOPIC,
        "brokers": ResourceType.BROKER,
        "broker-loggers": ResourceType.BROKER_LOGGER,
        "groups": ResourceType.GROUP,
        "client-metrics": ResourceType.CLIENT_METRICS,
    }[kind]


def read_configs(admin: Admin, kind: str, name: str, *, synonyms: bool = True) -> list[DescribeConfigsResourceResult]:
    """The configurations of one entity."""
    from ottla.client.admin.admin import Resource, ResourceType

    resource = Resource(ResourceType(resource_type(kind)), name)
    found = admin.describe_configs([resource], synonyms=synonyms)[resource]
    if isinstance(found, Exception):
        raise found
    return found


def _describe(admin: Admin, given: Given, entity: Entity) -> None:
    every = "all" in given
    names = _names(admin, entity)
    for name in names:
        _describe_one(admin, Entity(entity.kind, name), every=every)
    if entity.kind == "brokers" and entity.name is None:
        _describe_one(admin, Entity("brokers", ""), every=every)


def _names(admin: Admin, entity: Entity) -> list[str]:
    """The named entity, if it exists, or all."""
    if entity.kind == "brokers" and entity.name is None:
        return [str(broker) for broker in sorted(admin.cluster.brokers())]
    if entity.kind == "topics":
        known = list(admin.list_topics())
    elif entity.kind in ("groups", "client-metrics"):
        known = known_resources(admin, entity.kind)
    elif entity.name:
        known = [str(broker) for broker in admin.cluster.brokers()]
    else:
        return [""]
    if entity.name is None:
        return hash_order(known, string_hash)
    if entity.name not in known:
        sys.stdout.write(f"The {entity.noun} '{entity.name}' doesn't exist and doesn't have dynamic config.\n")
        return []
    return [entity.name]


def known_resources(admin: Admin, kind: str) -> list[str]:
    from ottla.messages.list_config_resources import ListConfigResourcesRequest

    answer = admin.cluster.request(ListConfigResourcesRequest(resource_types=[int(resource_type(kind))]))
    if answer.error_code:
        raise ApiError(ErrorCode(answer.error_code))
    configured = [each.resource_name for each in answer.config_resources]
    groups = [group.group_id for group in admin.list_groups()] if kind == "groups" else []
    return [*groups, *configured]


def _describe_one(admin: Admin, entity: Entity, *, every: bool) -> None:
    default = entity.kind == "brokers" and not entity.name
    if default:
        sys.stdout.write("Default configs for brokers in the cluster are:\n")
    else:
        sys.stdout.write(f"{'All' if every else 'Dynamic'} configs for {entity.noun} {entity.name} are:\n")
    configs = read_configs(admin, entity.kind, entity.name or "")
    own = _own_source(entity)
    for config in sorted(configs, key=lambda each: each.name):
        if every or own is None or config.config_source == own:
            _print(config)


def _own_source(entity: Entity) -> int | None:
    """The source of settings made for this entity itself; None: all sources count."""
    from ottla.client.admin.admin import ConfigSource

    if entity.kind == "brokers" and not entity.name:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return {
        "topics": ConfigSource.DYNAMIC_TOPIC_CONFIG,
        "brokers": ConfigSource.DYNAMIC_BROKER_CONFIG,
        "groups": ConfigSource.DYNAMIC_GROUP_CONFIG,
        "client-metrics": ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    }.get(entity.kind)


def _print(config: DescribeConfigsResourceResult) -> None:
    from ottla.client.admin.admin import ConfigSource

    synonyms = ", ".join(
        f"{ConfigSource(each.source).name}:{each.name}={_value(each.value)}" for each in config.synonyms
    )
    sensitive = str(config.is_sensitive).lower()
    sys.stdout.write(f"  {config.name}={_value(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}\n")


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _alter(admin: Admin, given: Given, entity: Entity) -> None:
    from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType

    added, deleted = _added(given), _deleted(given)
    added = where_they_fit(entity.noun, added) if entity.kind in ("topics", "brokers", "groups") else added
    changes: list[tuple[str, ConfigOperation, str | None]] = [
        (name, ConfigOperation.SET, value) for name, value in added.items()
    ]
    changes += [(name, ConfigOperation.DELETE, None) for name in deleted]
    resource = Resource(ResourceType(resource_type(entity.kind)), entity.name or "")
    fault = admin.alter_configs({resource: changes})[resource]
    if fault is not None:
        raise fault
    if entity.name:
        sys.stdout.write(f"Completed updating config for {entity.noun} {entity.name}.\n")
    else:
        sys.stdout.write(f"Completed updating default config for {entity.kind} in the cluster.\n")


def parse_added(texts: Iterable[str]) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]`: commas inside brackets belong to the value."""
    added: dict[str, str] = {}
    for text in texts:
        depth, start, parts = 0, 0, []
        for position, character in enumerate(text + ","):
            depth += {"[": 1, "]": -1}.get(character, 0)
            if character == "," and depth == 0:
                parts.append(text[start:position])
                start = position + 1
        filled = [part for part in parts if part.strip()]
        for part in filled or parts:
            name, equals, value = part.partition("=")
            if not equals:
                raise Misuse('Invalid entity config: all configs to be added must be in the format "key=val".')
            added[name.strip()] = value.strip().strip("[]")
    return added
