"""DescribeConfigs (key 32, versions 1 to 4): every option of a resource, with its source and synonyms.

KIP-133, KIP-226. Unlike in Apache Kafka, a broker that is asked by name returns the faults of its replicas as
`ottla.replica.troubles`, whether it has the compiled part as `ottla.record.decoder`, its bytes in and out as
`ottla.broker.load`, and what time it is as `ottla.broker.clock`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replicas.load import as_json as load_as_json
from ottla.broker.troubles import as_json
from ottla.broker.waiting import A_TURN, next_turn
from ottla.cluster.topics import name_error
from ottla.config.describe import (
    BROKER_CLOCK,
    BROKER_LOAD,
    RECORD_DECODER,
    REPLICA_TROUBLES,
    DescribedOption,
    a_state,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.config.option import integer
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.metadata.state import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.records import compiled

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer a resource that is named twice once: unlike in Apache Kafka repetition costs nothing."""
    response = DescribeConfigsResponse()
    asked = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    for number, resource in enumerate(asked.values(), 1):
        if number % A_TURN == 0:
            await next_turn(call.node.clock)
        described = _describe(call, resource)
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        if isinstance(described, ApiError):
            result.error_code = described.code
            result.error_message = described.message
        else:
            result.configs = [_result(one, request) for one in described]
        response.results.append(result)
    return response


def _describe(call: Call, resource: DescribeConfigsResource) -> list[DescribedOption] | ApiError:
    node = call.node
    name = resource.resource_name
    keys = resource.configuration_keys or None
    if resource.resource_type == TOPIC_RESOURCE:
        if (wrong := name_error(name)) is not None:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")
        topic = node.metadata.topic(name)
        if topic is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(node.options.topic_values(topic), node.layers, keys)
    if resource.resource_type == BROKER_RESOURCE:
        if name == "":
            return describe_broker_defaults(node.layers, keys)
        number = integer(name)
        if number is None:
            return ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if number != node.broker:
            return ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node.broker} or empty string, but received {name}",
            )
        described = describe_broker(node.layers, keys)
        if keys is not None and REPLICA_TROUBLES in keys:
            troubles = as_json(node.replicas, node.metadata)
            described.append(a_state(REPLICA_TROUBLES, troubles, "What is wrong with replicas of this broker."))
        if keys is not None and RECORD_DECODER in keys:
            described.append(a_state(RECORD_DECODER, compiled.which(), "How this broker reads records."))
        if keys is not None and BROKER_LOAD in keys:
            load = load_as_json(node.replicas.all(), node.replicas.traffic, node.clock.mono_ms())
            described.append(a_state(BROKER_LOAD, load, "Bytes in and out of this broker, and its followers' lag."))
        if keys is not None and BROKER_CLOCK in keys:
            described.append(
                a_state(BROKER_CLOCK, node.time.as_json(), "What time it is by this broker, and by its clock.")
            )
        return described
    if resource.resource_type == GROUP_RESOURCE:
        if not name:
            return ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(node.metadata.config(GROUP_RESOURCE, name), node.layers, keys)
    if resource.resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            return ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(node.metadata.config(CLIENT_METRICS_RESOURCE, name), node.layers, keys)
    return ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _result(one: DescribedOption, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = one.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        config_source=one.source,
        is_sensitive=one.sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=one.kind,
        documentation=one.doc if request.include_documentation else None,
    )
