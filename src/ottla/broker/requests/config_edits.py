"""The common part of AlterConfigs and IncrementalAlterConfigs: which edits of which resource may be stored.

Called by handlers/alter_configs.py and handlers/incremental_alter_configs.py with a resource's edits. They are checked
against `config/` on the resulting state, then submitted, or only decided if the client asked to validate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.look_again import look_again
from ottla.cluster.commands import MIN_IN_SYNC, ConfigEdit, ConfigOperation, EditConfigs
from ottla.cluster.configs import edited
from ottla.cluster.decide import decide
from ottla.cluster.topics import name_error
from ottla.config.client_metrics import ClientMetricsConfig, client_metrics_problems
from ottla.config.describe import text_of
from ottla.config.group import GroupConfig
from ottla.config.known import broker_options
from ottla.config.option import ConfigError, Option, OptionKind, Scope, integer, nearest
from ottla.config.resolve import Layers, group_problems, topic_problems
from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata.state import (
    ALL_BROKERS,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.requests.call import Call


class Edit:
    """One edit as the request has it."""

    __slots__ = ("name", "operation", "value")

    def __init__(self, name: str, operation: int, value: str | None) -> None:
        self.name = name
        self.operation = operation
        self.value = value


async def alter(
    call: Call, resource_type: int, name: str, edits: list[Edit], *, replace: bool, validate_only: bool
) -> ApiError | None:
    """Edit one resource; return the error, or None."""
    if resource_type == TOPIC_RESOURCE and call.node.metadata.topic(name) is None:
        unsure = await look_again(call)
        if unsure is not None:
            return unsure
    checked = _checked(call, resource_type, name, edits)
    if isinstance(checked, ApiError):
        return checked
    command = EditConfigs(resource_type, name, checked, replace=replace)
    metadata = call.node.metadata
    after = edited(dict(metadata.config(resource_type, name)), checked, replace=replace)
    problem = _problem(call.node.layers, resource_type, name, after)
    if problem is not None:
        return problem
    if validate_only:
        decided = decide(command, metadata, call.node.follow.writer())
        return decided if isinstance(decided, ApiError) else None
    outcome = await call.node.follow.submit(command)
    return outcome if isinstance(outcome, ApiError) else None


def _checked(call: Call, resource_type: int, name: str, edits: list[Edit]) -> tuple[ConfigEdit, ...] | ApiError:
    """Check that the resource exists and that each edit is valid by itself; return the edits or an error."""
    options = _options(call, resource_type, name)
    if isinstance(options, ApiError):
        return options
    if len({edit.name for edit in edits}) != len(edits):
        return ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    checked = []
    for edit in edits:
        one = _checked_edit(call.node.layers, options, resource_type, edit)
        if isinstance(one, ApiError):
            return one
        checked.append(one)
    return tuple(checked)


def _options(call: Call, resource_type: int, name: str) -> Mapping[str, Option] | ApiError:
    """The options that the resource may have, or an error if there is no such resource."""
    node = call.node
    if resource_type == TOPIC_RESOURCE:
        if not name:
            return ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if (wrong := name_error(name)) is not None:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")
        if node.metadata.topic(name) is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return TopicConfig.BY_NAME
    if resource_type == BROKER_RESOURCE:
        number = integer(name)
        if name != ALL_BROKERS and number is None:
            return ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        # An option under 01 would be stored where broker 1 does not look.
        if name != ALL_BROKERS and (number not in node.metadata.brokers or str(number) != name):
            return ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node.broker}, but received {name}"
            )
        return broker_options()
    if resource_type == GROUP_RESOURCE:
        if not name:
            return ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        return GroupConfig.BY_NAME
    if resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            return ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        return ClientMetricsConfig.BY_NAME
    return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def _checked_edit(
    layers: Layers, options: Mapping[str, Option], resource_type: int, edit: Edit
) -> ConfigEdit | ApiError:
    try:
        operation = ConfigOperation(edit.operation)
    except ValueError:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown configuration operation {edit.operation}.")
    if operation is not ConfigOperation.DELETE and edit.value is None:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {edit.name}")
    declared = options.get(edit.name)
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        if declared is None or declared.kind is not OptionKind.LIST:
            return ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {operation.name} to key {edit.name} because its type is not LIST.",
            )
        inherited = _inherited(layers, resource_type, declared)
        return ConfigEdit(edit.name, operation, edit.value or "", inherited)
    return ConfigEdit(edit.name, operation, edit.value or "")


def _inherited(layers: Layers, resource_type: int, declared: Option) -> str:
    """The value of a list option that the resource itself does not set."""
    if resource_type == TOPIC_RESOURCE:
        return text_of(layers.topic(), declared) or ""
    if resource_type == BROKER_RESOURCE and (given := layers.given(declared.name)):
        return given[0][1]
    return declared.text(declared.default) or ""


def _problem(layers: Layers, resource_type: int, name: str, after: dict[str, str]) -> ApiError | None:
    """The fault of the resource after the edits, or None."""
    if resource_type == TOPIC_RESOURCE:
        wrong = topic_problems(after, layers)
    elif resource_type == GROUP_RESOURCE:
        wrong = group_problems(after, layers)
    elif resource_type == CLIENT_METRICS_RESOURCE:
        wrong = client_metrics_problems(after)
    else:
        return _broker_problem(name, after)
    return None if wrong is None else ApiError(ErrorCode.INVALID_CONFIG, wrong)


def _broker_problem(name: str, after: dict[str, str]) -> ApiError | None:
    """The fault of a broker's options, or None. Apache Kafka stores unknown names; here they are errors."""
    options = broker_options()
    for key, text in after.items():
        declared = options.get(key)
        if declared is None:
            return ApiError(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {key}{nearest(key, options)}")
        if (refused := _not_dynamic(declared, name)) is not None:
            return refused
        try:
            declared.parse(text)
        except ConfigError as fault:
            return ApiError(ErrorCode.INVALID_REQUEST, fault.problems[0])
    return None


def _not_dynamic(declared: Option, name: str) -> ApiError | None:
    if declared.name == MIN_IN_SYNC and name != ALL_BROKERS:
        # this option decides which replicas stay eligible (KIP-966), which must not depend on the present leader
        return ApiError(ErrorCode.INVALID_CONFIG, f"{MIN_IN_SYNC} can be set for all brokers or for a topic only.")
    if declared.scope is Scope.READ_ONLY:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{declared.name}]")
    if declared.scope is Scope.PER_BROKER and name == ALL_BROKERS:
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs at default cluster level, broker id must be specified: [{declared.name}]",
        )
    return None
