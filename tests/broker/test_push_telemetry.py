"""Pushed metrics are taken in every codec, and what cannot be read is refused without being held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sim_broker import SimBroker
from tests.metrics.otlp_building import gauge, pushed

from ottla.kernel.errors import ErrorCode
from ottla.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.messages.list_config_resources import ListConfigResourcesRequest
from ottla.messages.push_telemetry import PushTelemetryRequest
from ottla.metadata.state import CLIENT_METRICS_RESOURCE
from ottla.records.compression import Codec, compress

MOST = 100_000


@pytest.fixture(scope="module")
def place() -> Iterator[SimBroker]:
    one = SimBroker(telemetry_max_bytes=str(MOST))
    options = [AlterableConfig(name="metrics", config_operation=0, value="*")]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS_RESOURCE, resource_name="all", configs=options)
    assert one.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code == 0
    yield one


def push(place: SimBroker, codec: int, content: bytes) -> int:
    """Push as a client that has just asked what to push."""
    asked = place.ask(GetTelemetrySubscriptionsRequest())
    assert (asked.error_code, asked.requested_metrics, asked.telemetry_max_bytes) == (0, ["*"], MOST)
    request = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=asked.subscription_id,
        compression_type=codec,
        metrics=content,
    )
    return int(place.ask(request).error_code)


@pytest.mark.parametrize("codec", Codec)
def test_metrics_are_taken_in_every_codec(place: SimBroker, codec: Codec) -> None:
    name = f"of.{codec.name.lower()}"
    assert push(place, codec, compress(codec, bytes(pushed(gauge(name, 7))))) == 0
    shown = {one.metric.name: one.value for one in place.here.node.services.telemetry.pushed.samples()}
    assert shown[f"kafka_client_of_{codec.name.lower()}"] == 7


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_metrics_that_are_too_large_once_decompressed_are_refused(place: SimBroker, codec: Codec) -> None:
    bomb = compress(codec, bytes(MOST * 10))
    assert push(place, codec, bomb) == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize(
    ("codec", "content", "error"),
    [
        (0, b"\xff" * 20, ErrorCode.INVALID_RECORD),
        (4, b"no zstd", ErrorCode.INVALID_RECORD),
        (9, b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (0, b"\x00" * (MOST + 1), ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_metrics_that_cannot_be_read_are_refused(
    place: SimBroker, codec: int, content: bytes, error: ErrorCode
) -> None:
    before = len(place.here.node.services.telemetry.pushed)
    assert push(place, codec, content) == error
    assert len(place.here.node.services.telemetry.pushed) == before


def test_subscriptions_are_listed_and_outlive_a_restart(place: SimBroker) -> None:
    place.restart(clean=True)
    (named,) = place.ask(ListConfigResourcesRequest(resource_types=[CLIENT_METRICS_RESOURCE])).config_resources
    assert named.resource_name == "all"
    assert place.ask(GetTelemetrySubscriptionsRequest()).requested_metrics == ["*"]
