"""Unmodified clients with the rights that they need and no others, and their own ways to edit ACLs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.access.limited import Limited
from tests.access.rights_requests import acl

from ottla.kernel.acls import Operation, ResourceKind


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited(["writer", "reader"])
    with one.broker:
        one.make_topic("books")
        one.grant(
            acl("writer", Operation.WRITE, ResourceKind.TOPIC, "books"),
            acl("writer", Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, "w", prefixed=True),
            acl("reader", Operation.READ, ResourceKind.TOPIC, "boo", prefixed=True),
            acl("reader", Operation.READ, ResourceKind.GROUP, "readers"),
        )
        yield one


def settings(limited: Limited, user: str, **more: str) -> dict[str, str]:
    host, port = limited.broker._running().addresses["SASL_PLAINTEXT"]
    said = {"bootstrap.servers": f"{host}:{port}", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    said |= {"sasl.username": user, "sasl.password": user, "log_level": "0"}
    return said | {name.replace("_", "."): value for name, value in more.items()}


def produced(producer: Producer, topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0]


def test_a_writer_writes_with_and_without_transactions_and_nothing_else(limited: Limited) -> None:
    plain = Producer(settings(limited, "writer", enable_idempotence="true"))
    assert produced(plain, "books") is None
    refused = produced(plain, "letters")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    transactional = Producer(settings(limited, "writer", transactional_id="w-1"))
    transactional.init_transactions(30)
    transactional.begin_transaction()
    transactional.produce("books", b"y")
    transactional.commit_transaction(30)
    with pytest.raises(KafkaException) as foreign:
        Producer(settings(limited, "writer", transactional_id="other")).init_transactions(30)
    assert foreign.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException):
        Producer(settings(limited, "reader", transactional_id="w-1")).init_transactions(30)


def test_a_reader_reads_in_its_group_and_in_no_other(limited: Limited) -> None:
    assert produced(Producer(settings(limited, "writer")), "books") is None
    consumer = Consumer(settings(limited, "reader", group_id="readers", auto_offset_reset="earliest"))
    consumer.subscribe(["books"])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    consumer.commit(message, asynchronous=False)
    consumer.close()
    stranger = Consumer(settings(limited, "reader", group_id="strangers"))
    stranger.subscribe(["books"])
    refused = stranger.poll(30)
    assert refused is not None
    assert refused.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    stranger.close()


def test_librdkafka_creates_describes_and_deletes_acls(limited: Limited) -> None:
    admin = AdminClient(settings(limited, "root"))
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    made = AclBinding(ResourceType.TOPIC, "made", literal, "User:x", "*", AclOperation.READ, allow)
    for done in admin.create_acls([made]).values():
        done.result(20)
    wanted = AclBindingFilter(
        ResourceType.TOPIC, "made", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(wanted).result(20) == [made]
    (deleted,) = admin.delete_acls([wanted]).values()
    assert deleted.result(20) == [made]
    assert admin.describe_acls(wanted).result(20) == []
    another = AdminClient(settings(limited, "reader"))
    with pytest.raises(KafkaException) as refused:
        another.create_acls([made])[made].result(20)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
