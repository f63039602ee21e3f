"""Settings are checked when they are made, and take the words of Kafka's documentation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ottla.client import Admin, Cluster, Consumer, Producer, aio
from ottla.client.consume.assignors import RANGE, ROUNDROBIN
from ottla.client.consume.settings import ConsumerSettings, FetchSettings
from ottla.client.model import ClientSettings, IsolationLevel
from ottla.client.produce.partitioners import consistent_partitioner
from ottla.client.produce.settings import ProducerSettings
from ottla.client.settings import Settings
from ottla.records.compression import Codec

KINDS = [ClientSettings, ConsumerSettings, FetchSettings, ProducerSettings]
SETTINGS = [(kind, field.name) for kind in KINDS for field in dataclasses.fields(kind)]
CALLERS: list[Callable[..., Any]] = [Producer, Consumer, Admin, Cluster, aio.Producer, aio.Consumer, aio.Cluster]


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        (ProducerSettings, {"acks": "all"}, -1),
        (ProducerSettings, {"acks": "1"}, 1),
        (ProducerSettings, {"acks": 0}, 0),
        (ProducerSettings, {"compression": "zstd"}, Codec.ZSTD),
        (ProducerSettings, {"compression": "None"}, Codec.NONE),
        (ProducerSettings, {"compression": Codec.LZ4}, Codec.LZ4),
        (ProducerSettings, {"linger_ms": "5"}, 5),
        (ProducerSettings, {"linger_ms": 0.5}, 0.5),
        (ProducerSettings, {"linger_ms": "0.5 ms"}, 0.5),
        (ProducerSettings, {"linger_ms": "500us"}, 0.5),
        (ProducerSettings, {"delivery_timeout_ms": "2m"}, 120_000),
        (ProducerSettings, {"delivery_timeout_ms": "1h30m"}, 5_400_000),
        (ProducerSettings, {"batch_size": "64KiB"}, 65_536),
        (ProducerSettings, {"buffer_memory": "1.5GiB"}, 3 * 2**29),
        (ProducerSettings, {"max_request_size": "1 MB"}, 1_048_576),
        (ProducerSettings, {"partitioner": "consistent"}, consistent_partitioner),
        (ProducerSettings, {"enable_idempotence": "false"}, False),
        (ProducerSettings, {"request_timeout_ms": timedelta(seconds=5)}, 5_000),
        (ConsumerSettings, {"auto_offset_reset": "Earliest"}, "earliest"),
        (ConsumerSettings, {"session_timeout_ms": "5s"}, 5_000),
        (ConsumerSettings, {"session_timeout_ms": 5_000.0}, 5_000),
        (ConsumerSettings, {"assignors": ["roundrobin", RANGE]}, (ROUNDROBIN, RANGE)),
        (ConsumerSettings, {"assignors": "range"}, (RANGE,)),
        (FetchSettings, {"isolation_level": "read_committed"}, IsolationLevel.READ_COMMITTED),
        (FetchSettings, {"isolation_level": 1}, IsolationLevel.READ_COMMITTED),
        (FetchSettings, {"max_wait_ms": "500ms"}, 500),
        (ClientSettings, {"metadata_max_age_ms": "1h"}, 3_600_000),
    ],
)
def test_a_setting_takes_the_words_of_the_documentation(kind: type[Any], given: dict[str, Any], kept: object):
    [name] = given
    found = getattr(kind(**given), name)
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (ProducerSettings, {"acks": "alll"}, r"acks is 'all', -1, 0 or 1, not 'alll'; did you mean 'all'\?"),
        (ProducerSettings, {"acks": 2}, "acks is .* not 2"),
        (ProducerSettings, {"acks": True}, "acks is .* not True, which is of type bool"),
        (ProducerSettings, {"compression": "ztsd"}, r"compression is .* did you mean 'zstd'\?"),
        (ProducerSettings, {"compression": 9}, "compression is .* not 9"),
        (ProducerSettings, {"linger_ms": -1}, "linger_ms is .* from 0 to .* not -1"),
        (ProducerSettings, {"linger_ms": float("nan")}, "linger_ms is .* not nan"),
        (ProducerSettings, {"linger_ms": "5 moons"}, "linger_ms is .* not '5 moons'"),
        (ProducerSettings, {"linger_ms": "5 M"}, "linger_ms is .* not '5 M'"),
        (ProducerSettings, {"batch_size": 1.5}, "batch_size is a whole number of bytes .* not 1.5"),
        (ProducerSettings, {"batch_size": timedelta(1)}, "batch_size is .* of type timedelta"),
        (ProducerSettings, {"batch_size": "1 MX"}, "batch_size is .* not '1 MX'"),
        (ProducerSettings, {"partitioner": "murmur3"}, r"partitioner is .* did you mean 'murmur2'\?"),
        (ProducerSettings, {"enable_idempotence": 1}, "enable_idempotence is True or False, not 1"),
        (ProducerSettings, {"compression_level": 3}, "compression_level is for gzip, lz4 and zstd, not for .*'none'"),
        (ProducerSettings, {"compression": "gzip", "compression_level": 10}, "compression_level is from 1 to 9"),
        (ProducerSettings, {"transactional_id": "id", "acks": 1}, 'a transactional_id needs acks="all"'),
        (ConsumerSettings, {"session_timeout_ms": "0.5ms"}, "session_timeout_ms is a whole number of milliseconds"),
        (ConsumerSettings, {"session_timeout_ms": 2**31}, "session_timeout_ms is .* not 2147483648"),
        (ConsumerSettings, {"session_timeout_ms": timedelta(microseconds=5)}, "session_timeout_ms is .* timedelta"),
        (ConsumerSettings, {"auto_offset_reset": "smallest"}, r"auto_offset_reset is 'earliest', .* not 'smallest'"),
        (ConsumerSettings, {"assignors": "rang"}, r"assignors is .* did you mean 'range'\?"),
        (ConsumerSettings, {"assignors": []}, "assignors is a sequence of assignors"),
        (ConsumerSettings, {"max_poll_records": 0}, "max_poll_records is .* from 1 to"),
        (ConsumerSettings, {"fetch": {"min_bytes": 1}}, "fetch is a FetchSettings, not .* of type dict"),
        (ConsumerSettings, {"group_id": "g", "session_timeout_ms": "2s"}, "heartbeat_interval_ms is less than"),
        (FetchSettings, {"isolation_level": "committed"}, "isolation_level is 'read_uncommitted' or 'read_committed'"),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_refused_by_name(kind: type[Any], given: dict[str, Any], said: str):
    with pytest.raises((ValueError, TypeError), match=said):
        kind(**given)


@pytest.mark.parametrize(("kind", "name"), SETTINGS)
def test_every_setting_is_checked_when_it_is_made(kind: type[Settings], name: str):
    with pytest.raises((TypeError, ValueError), match=f"^{name} is "):
        kind(**{name: object()})


@pytest.mark.parametrize(("kind", "name"), SETTINGS)
def test_a_misspelt_setting_is_refused_with_the_nearest_one(kind: type[Settings], name: str):
    with pytest.raises(TypeError, match=rf"^{kind.__name__} has no setting '{name}x'; did you mean {name}\?$"):
        kind(**{f"{name}x": 1})


@pytest.mark.parametrize(
    ("caller", "given", "said"),
    [
        (
            Producer,
            {"bootstrap_servers": "a:1"},
            r"no setting 'bootstrap_servers'; did you mean bootstrap\?",
        ),
        (Producer, {"compression.type": "zstd"}, r"did you mean compression\?"),
        (Producer, {"linger.ms": 5}, r"did you mean linger_ms\?"),
        (Producer, {"group_id": "g"}, "Producer has no setting 'group_id'"),
        (Consumer, {"max_partition_fetch_bytes": 5}, r"did you mean max_partition_bytes\?"),
        (Consumer, {"autoOffsetReset": "earliest"}, r"did you mean auto_offset_reset\?"),
        (Admin, {"acks": 1}, "Admin has no setting 'acks'; it has api_timeout_ms, bootstrap, .*"),
    ],
)
def test_names_of_other_clients_lead_to_ours(caller: Callable[..., Any], given: dict[str, Any], said: str):
    with pytest.raises(TypeError, match=said):
        caller(**given)


@pytest.mark.parametrize("caller", CALLERS)
def test_every_face_refuses_a_setting_that_there_is_not(caller: Callable[..., Any]):
    with pytest.raises(TypeError, match=r"has no setting 'client_idd'; did you mean client_id\?"):
        caller("localhost:1", client_idd="x")


@pytest.mark.parametrize("caller", CALLERS)
def test_every_face_takes_single_settings_of_its_connections(caller: Callable[..., Any]):
    made = caller("localhost:1", client_id="mine", request_timeout_ms="5s")
    settings = made.settings if isinstance(made, Cluster | aio.Cluster) else made.cluster.settings
    assert (settings.client_id, settings.request_timeout_ms) == ("mine", 5_000)


@pytest.mark.parametrize("made", [Consumer, aio.Consumer])
def test_a_consumer_takes_single_settings_in_place_of_those_it_was_given(made: Callable[..., Any]):
    given = ConsumerSettings(group_id="g", fetch=FetchSettings(max_wait_ms=7))
    consumer = made("localhost:1", consumer=given, group_id="x", isolation_level="read_committed")
    settings = consumer.core.settings
    assert (settings.group_id, settings.fetch.isolation_level) == ("x", IsolationLevel.READ_COMMITTED)
    assert (settings.fetch.max_wait_ms, given.group_id) == (7, "g")


@pytest.mark.parametrize("made", [Producer, aio.Producer])
def test_a_producer_takes_single_settings_in_place_of_those_it_was_given(made: Callable[..., Any]):
    producer = made("localhost:1", producer=ProducerSettings(linger_ms=7), acks="all", request_timeout_ms="6s")
    settings = producer.producer_settings
    assert (settings.acks, settings.linger_ms, settings.request_timeout_ms) == (-1, 7, 6_000)
    assert producer.cluster.settings.request_timeout_ms == 6_000


def test_settings_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="consumer is a ConsumerSettings, not ProducerSettings"):
        Consumer("localhost:1", consumer=ProducerSettings())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="settings is a ClientSettings"):
        Admin("localhost:1", settings=ProducerSettings())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"give fetch=FetchSettings\(isolation_level=\.\.\.\)"):
        ConsumerSettings(isolation_level="read_committed")  # type: ignore[call-arg]


def test_an_admin_that_shares_connections_takes_no_settings_of_its_own():
    with pytest.raises(TypeError, match="shares the connections of cluster="):
        Admin(cluster=Cluster("localhost:1"), client_id="other")


@pytest.mark.parametrize("given", [{"bootstrap.servers": "a:1"}, 9092, b"a:1", ["a:1", 2], None])
def test_a_bootstrap_address_that_is_no_text_is_refused(given: Any):
    with pytest.raises(TypeError, match="the bootstrap address is text such as 'localhost:9092'"):
        Producer(given)


def test_settings_are_replaced_and_compared_as_dataclasses():
    settings = dataclasses.replace(ProducerSettings(acks=1), linger_ms="1s")
    assert (settings, settings.linger_ms) == (ProducerSettings(acks="1", linger_ms=1_000), 1_000)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.acks = 0  # type: ignore[misc]
