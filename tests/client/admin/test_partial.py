"""Calls on several resources: one that fails does not hide what became of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.client.stories import VirtualTime, topic_led_by

from ottla.client.admin import admin, groups
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.core.effects import Ask
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import BrokerUnreachable
from ottla.client.model import ClientSettings
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from ottla.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from ottla.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.messages.metadata import MetadataRequest

ONE, TWO = Resource(ResourceType.BROKER, "1"), Resource(ResourceType.BROKER, "2")


class Cluster(VirtualTime):
    """Brokers 1 and 2; one function answers what is not about metadata."""

    def __init__(self, answer: Callable[[Any, int], Any]) -> None:
        super().__init__()
        self.plan = ClusterPlan("b:1", ClientSettings(), lambda: self.time)
        self.answer = answer
        self.asks: list[Ask[Any]] = []

    def attempt(self, effect: Any) -> Any:
        self.time += 1
        if effect.request is MetadataRequest:
            return topic_led_by(1, 2)
        self.asks.append(effect)
        return self.answer(effect.build(3), effect.destination.port)


def test_a_group_that_may_not_be_touched_does_not_hide_that_another_was_deleted() -> None:
    def answer(request: Any, _: int) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED if request.key == "theirs" else ErrorCode.NONE
            return FindCoordinatorResponse(error_code=int(code), node_id=1, host="b", port=1)
        assert isinstance(request, DeleteGroupsRequest)
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=request.groups_names[0])])

    cluster = Cluster(answer)
    outcome = cluster.run(groups.delete_groups(cluster.plan, ["mine", "theirs", "also-mine"]))
    assert [outcome["mine"], outcome["also-mine"]] == [None, None]
    assert isinstance(outcome["theirs"], ApiError)
    assert outcome["theirs"].code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    for describe in (groups.describe_groups, groups.describe_consumer_groups):
        described = cluster.run(describe(cluster.plan, ["theirs"]))
        assert isinstance(described["theirs"], ApiError)


def test_groups_are_listed_again_while_a_coordinator_loads() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def answer(request: Any, broker: int) -> ListGroupsResponse:
        assert isinstance(request, ListGroupsRequest)
        if codes and broker == 2:
            return ListGroupsResponse(error_code=int(codes.pop()))
        return ListGroupsResponse(groups=[ListedGroup(group_id=f"g{broker}")])

    cluster = Cluster(answer)
    listed = cluster.run(groups.list_groups(cluster.plan))
    assert sorted(group.group_id for group in listed) == ["g1", "g2"]


def broker_two_is_away(request: Any, broker: int) -> Any:
    if broker == 2:
        return BrokerUnreachable("refused")
    if isinstance(request, DescribeConfigsRequest):
        value = DescribeConfigsResourceResult(name="a", value="b")
        result = DescribeConfigsResult(resource_type=4, resource_name="1", configs=[value])
        return DescribeConfigsResponse(results=[result])
    assert isinstance(request, IncrementalAlterConfigsRequest)
    return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(resource_type=4, resource_name="1")])


def test_a_broker_that_is_away_does_not_hide_what_became_of_another() -> None:
    cluster = Cluster(broker_two_is_away)
    found = cluster.run(admin.describe_configs(cluster.plan, [TWO, ONE]))
    assert [each.value for each in found[ONE]] == ["b"]
    assert isinstance(found[TWO], BrokerUnreachable)
    change = [("a", ConfigOperation.SET, "b")]
    outcome = cluster.run(admin.alter_configs(cluster.plan, {TWO: change, ONE: change}))
    assert outcome[ONE] is None
    assert isinstance(outcome[TWO], BrokerUnreachable)
    with pytest.raises(BrokerUnreachable):
        cluster.run(admin.describe_configs(cluster.plan, [TWO]))


def test_a_broker_gets_the_time_to_delete_records_that_the_caller_allows() -> None:
    def answer(request: Any, _: int) -> Any:
        assert isinstance(request, DeleteRecordsRequest)
        assert request.timeout_ms == 45_000
        return DeleteRecordsResponse()

    cluster = Cluster(answer)
    cluster.run(admin.delete_records(cluster.plan, {TopicPartition("t", 0): 5}, timeout_ms=45_000))
    assert all((ask.timeout_ms or 0) > 45_000 for ask in cluster.asks)
    assert cluster.asks


def test_an_id_that_no_topic_has_is_named_in_its_error() -> None:
    def answer(request: Any, _: int) -> Any:
        code = int(ErrorCode.UNKNOWN_TOPIC_ID)
        return DeleteTopicsResponse(responses=[DeletableTopicResult(topic_id=b"\1" * 16, name=None, error_code=code)])

    cluster = Cluster(answer)
    outcome = cluster.run(admin.delete_topics(cluster.plan, ids=[b"\1" * 16]))
    assert "AQEBAQEBAQEBAQEBAQEBAQ" in str(outcome[b"\1" * 16])
