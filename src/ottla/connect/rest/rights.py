"""The rights that calls take: a connector NAME is the group `connect-NAME`, as which sinks read. Pure.

A connector works with the login of its worker. So its caller must also have the rights that it takes of that login:
READ on the topics of a sink, WRITE on those of a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.connect.machine.offsets import group_of, reading_group
from ottla.connect.machine.refusals import CallRefused, connector_not_found
from ottla.connect.machine.validation import plugin_of
from ottla.connect.plugins.base import SourceConnector
from ottla.jobs.caller import HttpCaller, Right, cluster, filtered
from ottla.kernel.acls import Operation, ResourceKind

if TYPE_CHECKING:
    from ottla.connect.machine.state import Config
    from ottla.connect.rest.calls import RestCall

ConnectRight = Right["RestCall"]
_GROUP, _CLUSTER, _TOPIC = ResourceKind.GROUP, ResourceKind.CLUSTER, ResourceKind.TOPIC
_CONNECTOR: Final = "`connect-NAME` of the connector"
_VARIABLE: Final = "${"
_ALSO_WRITTEN: Final = {
    "errors.deadletterqueue.topic.name": _TOPIC,
    "offsets.storage.topic": _TOPIC,
    "producer.override.transactional.id": ResourceKind.TRANSACTIONAL_ID,
}


def _path(call: RestCall) -> Iterable[str]:
    return (group_of(call.name),)


def _new(call: RestCall) -> Iterable[str]:
    """PUT makes connectors without blanks around their names."""
    return (group_of(call.name.strip()),)


def _on_connector(operation: Operation) -> ConnectRight:
    return Right(operation, _GROUP, _CONNECTOR, _path, hides=True)


LISTED: Final[ConnectRight] = Right(
    Operation.DESCRIBE, _GROUP, _CONNECTOR, filtered, told="the connector is left out; its `info` without "
    "DESCRIBE_CONFIGS",
)  # fmt: skip
DESCRIBE: Final = _on_connector(Operation.DESCRIBE)
READ: Final = _on_connector(Operation.READ)
DELETE: Final = _on_connector(Operation.DELETE)
DESCRIBE_CONFIGS: Final = _on_connector(Operation.DESCRIBE_CONFIGS)
PATCH: Final = _on_connector(Operation.ALTER_CONFIGS)
PUT: Final[ConnectRight] = Right(Operation.ALTER_CONFIGS, _GROUP, _CONNECTOR, _new)
BODY: Final[ConnectRight] = Right(
    Operation.ALTER_CONFIGS, _GROUP, "`connect-NAME` of the name in the body", filtered, told="403"
)
"""The endpoint asks for it by `require_configuring`, once it has read the body."""
WORK: Final[tuple[ConnectRight, ...]] = (
    Right(Operation.READ, _GROUP, "the group of a sink", filtered, told="403"),
    Right(Operation.READ, _TOPIC, "the topics of a sink; all, with `topics.regex`", filtered, told="403"),
    Right(Operation.WRITE, _TOPIC, "the topic of a source; all, where its configuration does not tell", filtered,
          told="403"),
    Right(Operation.WRITE, _TOPIC, "`errors.deadletterqueue.topic.name`, `offsets.storage.topic`", filtered,
          told="403"),
    Right(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, "`producer.override.transactional.id`", filtered,
          told="403"),
)  # fmt: skip
"""The endpoint asks for them by `require_work`, once it knows the whole configuration."""
SINK_OFFSETS: Final[ConnectRight] = Right(
    Operation.READ, _TOPIC, "each topic in the body, for a sink", filtered, told="403"
)
METRICS: Final[ConnectRight] = Right(Operation.DESCRIBE, _CLUSTER, "`kafka-cluster`", cluster)
LOGGERS: Final[ConnectRight] = Right(Operation.DESCRIBE_CONFIGS, _CLUSTER, "`kafka-cluster`", cluster)
SET_LOGGERS: Final[ConnectRight] = Right(Operation.ALTER_CONFIGS, _CLUSTER, "`kafka-cluster`", cluster)


def require(rights: Sequence[ConnectRight], call: RestCall) -> None:
    """Refuse a call for which the caller lacks a right: 403, or as if there were no such connector."""
    for right in rights:
        lacking = right.lacking(call.caller, call)
        if lacking is None:
            continue
        if right.is_hidden(call.caller, lacking):
            raise connector_not_found(call.name)
        raise CallRefused(403, call.caller.refusal(right.operation, right.resource, lacking))


def sees(caller: HttpCaller, name: str) -> bool:
    """True if the caller may know of a connector."""
    return caller.may(DESCRIBE.operation, DESCRIBE.resource, group_of(name))


def sees_config(caller: HttpCaller, name: str) -> bool:
    """True if the caller may know the configuration of a connector."""
    return caller.may(DESCRIBE_CONFIGS.operation, DESCRIBE_CONFIGS.resource, group_of(name))


def require_configuring(caller: HttpCaller, name: str) -> None:
    """Refuse a caller who may not make a connector of this name."""
    _require(BODY, caller, group_of(name))


def require_reading(caller: HttpCaller, topics: Iterable[str]) -> None:
    """Refuse a caller who may not read one of the topics."""
    for topic in topics:
        _require(SINK_OFFSETS, caller, topic)


def _require(right: ConnectRight, caller: HttpCaller, name: str) -> None:
    if not caller.may(right.operation, right.resource, name):
        raise CallRefused(403, caller.refusal(right.operation, right.resource, name))


class Work(NamedTuple):
    """A right that a connector takes of its worker's login: on one resource, or on all whose names begin so."""

    operation: Operation
    resource: ResourceKind
    name: str
    is_prefix: bool = False


def require_work(caller: HttpCaller, name: str, config: Config) -> None:
    """Refuse a caller who may not do what a connector of this configuration will do."""
    if caller.rules is None:
        return
    for work in _works(name, config):
        assert any((work.operation, work.resource) == (each.operation, each.resource) for each in WORK), work
        if work.is_prefix:
            if not caller.may_all(work.operation, work.resource, work.name):
                what = f"names that begin with {work.name!r}" if work.name else "names of any kind"
                raise CallRefused(403, caller.refusal(work.operation, work.resource, what))
        elif not caller.may(work.operation, work.resource, work.name):
            raise CallRefused(403, caller.refusal(work.operation, work.resource, work.name))


def _works(name: str, config: Config) -> Iterator[Work]:
    plugin = plugin_of(config)
    if issubclass(plugin, SourceConnector):
        yield _written(plugin, config)
    else:
        yield _named(Operation.READ, _GROUP, reading_group(config, name))
        for topic in config.get("topics", "").split(","):
            if topic.strip():
                yield _named(Operation.READ, _TOPIC, topic.strip())
        if config.get("topics.regex"):
            yield Work(Operation.READ, _TOPIC, "", is_prefix=True)
    for option, resource in _ALSO_WRITTEN.items():
        if config.get(option):
            yield _named(Operation.WRITE, resource, config[option])


def _written(plugin: type[SourceConnector], config: Config) -> Work:
    """The topics of a source. A transformation may send records elsewhere, so all topics are asked for with one."""
    option = plugin.topic_option
    if not option or not config.get(option) or config.get("transforms", "").strip():
        return Work(Operation.WRITE, _TOPIC, "", is_prefix=True)
    work = _named(Operation.WRITE, _TOPIC, config[option])
    return work if work.is_prefix else work._replace(is_prefix=option.endswith(".prefix"))


def _named(operation: Operation, resource: ResourceKind, name: str) -> Work:
    """A resource by its name; all of its type where a variable stands in it, whose value no refusal may tell.

    With blanks around it the name may be another one to the task: that is not decided here either.
    """
    if _VARIABLE in name or name != name.strip():
        return Work(operation, resource, "", is_prefix=True)
    return Work(operation, resource, name)
