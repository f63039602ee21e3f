"""Damage in a log of groups costs the groups of the damaged records; in one of transactions it waits for a word."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.client.model import ClientSettings, CommittedOffset
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.testing import TestBroker

ONE_EACH = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
PLACE = TopicPartition("t", 0)
GROUPS = ("before", "damaged", "behind")


def flip(directory: Path, topic: str, text: bytes, *, clean: bool) -> None:
    """Damage the last record that holds a text; without the mark of a clean stop a start reads the whole segment."""
    (segment,) = directory.glob(f"{topic}-0/*.log")
    at = segment.read_bytes().rindex(text) + len(text) + 12  # in the value of its record
    with segment.open("r+b") as file:
        file.seek(at)
        before = file.read(1)
        file.seek(at)
        file.write(bytes([before[0] ^ 4]))
    if not clean:
        (directory / ".kafka_cleanshutdown").unlink()


def commit(admin: Admin, group: str, offset: int) -> None:
    assert admin.commit_offsets(group, {PLACE: CommittedOffset(offset)}) == {PLACE: None}


def committed(admin: Admin, group: str) -> int | None:
    found = admin.committed_offsets(group).get(PLACE)
    return None if found is None else found.offset


@pytest.mark.parametrize("clean", [True, False])
def test_damage_costs_the_groups_of_the_damaged_records_and_names_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool
) -> None:
    with TestBroker(ONE_EACH, directory=tmp_path) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1, 1)
        for number, group in enumerate(GROUPS, 1):
            commit(admin, group, number)
    flip(tmp_path, "__consumer_offsets", b"damaged", clean=clean)
    with (
        caplog.at_level(logging.WARNING, "ottla.coordinators"),
        TestBroker(ONE_EACH, directory=tmp_path) as broker,
        Admin(broker.bootstrap_servers) as admin,
    ):
        assert [committed(admin, group) for group in GROUPS] == [1, None, 3]
        for number, group in enumerate((*GROUPS, "new"), 5):
            commit(admin, group, number)
        assert [committed(admin, group) for group in (*GROUPS, "new")] == [5, 6, 7, 8]
    lines = [line for line in caplog.messages if "it is loaded without them" in line]
    assert lines and "Named in them: damaged" in lines[-1]


def test_transactions_wait_for_an_administrator_who_lets_damage_be_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with TestBroker(ONE_EACH, directory=tmp_path) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1, 1)
        for name in ("damaged", "sound"):
            with Producer(broker.bootstrap_servers, transactional_id=name) as producer:
                producer.init_transactions()
    flip(tmp_path, "__transaction_state", b"damaged", clean=False)
    patient = ClientSettings(api_timeout_ms=2000)
    with (
        caplog.at_level(logging.WARNING, "ottla.coordinators"),
        TestBroker(ONE_EACH, directory=tmp_path) as broker,
        Admin(broker.bootstrap_servers) as admin,
    ):
        with (
            pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"),
            Producer(broker.bootstrap_servers, transactional_id="sound", settings=patient) as producer,
        ):
            producer.init_transactions()
        assert "deletion.protection=false" in caplog.text
        resource = Resource(ResourceType.TOPIC, "__transaction_state")
        admin.alter_configs({resource: [("deletion.protection", ConfigOperation.SET, "false")]})
        with Producer(broker.bootstrap_servers, transactional_id="sound") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce("t", "one")
            producer.commit_transaction()
    (line,) = [line for line in caplog.messages if "it is loaded without them" in line]
    assert "Named in them: damaged" in line and "may be aborted in some partitions" in line
