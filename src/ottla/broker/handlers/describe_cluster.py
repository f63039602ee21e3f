"""DescribeCluster (key 60, versions 0 to 2): the cluster's id, its brokers, and who takes a controller's requests.

KIP-700; fenced brokers from version 2 on (KIP-1073). Any broker takes a controller's requests here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.operations import allowed_operations
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

_BROKERS, _CONTROLLERS = 1, 2


async def handle(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    node = call.node
    response = DescribeClusterResponse()
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        response.error_code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        response.error_message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            if known
            else f"Unsupported endpoint type {request.endpoint_type}"
        )
        return response
    response.cluster_id = node.metadata.cluster_id
    response.controller_id = node.controller_for_clients()
    response.brokers = [
        DescribeClusterBroker(broker_id=broker_id, host=host, port=port, rack=rack)
        for broker_id, host, port, rack in node.endpoints.live(call.connection)
    ]
    if request.include_fenced_brokers:
        response.brokers += _fenced(call)
    if request.include_cluster_authorized_operations:
        may_describe = call.may(Operation.DESCRIBE, ResourceKind.CLUSTER, CLUSTER_NAME, told=False)
        response.cluster_authorized_operations = allowed_operations(call, ResourceKind.CLUSTER) if may_describe else 0
    return response


def _fenced(call: Call) -> list[DescribeClusterBroker]:
    found = []
    for broker_id in sorted(call.node.metadata.brokers):
        broker = call.node.metadata.brokers[broker_id]
        listener = broker.listener(call.connection.listener)
        if broker.fenced and listener is not None:
            found.append(
                DescribeClusterBroker(
                    broker_id=broker_id, host=listener.host, port=listener.port, rack=broker.rack, is_fenced=True
                )
            )
    return found
