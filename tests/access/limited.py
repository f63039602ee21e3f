"""A broker that limits its users by ACLs, and requests to it by hand."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.access.rights_requests import GROUP, TOPIC, TRANSACTION, answer, login
from tests.access.secured import Raw

from ottla.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.testing import TestBroker

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Limited:
    """The users log in by PLAIN, with their names as passwords; root is a super user."""

    def __init__(self, users: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required "
        jaas = plain + " ".join(f'user_{user}="{user}"' for user in {"root", *users}) + ";"
        self.broker = TestBroker(
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:root",
                "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 1,
                **(more or {}),
            }
        )
        self.topic_id = b""

    @property
    def address(self) -> tuple[str, int]:
        return self.broker._running().addresses["SASL_PLAINTEXT"]

    @contextlib.contextmanager
    def user(self, name: str) -> Iterator[Raw]:
        with socket.create_connection(self.address, timeout=20) as sock:
            raw = Raw(sock)
            login(raw, name)
            yield raw

    def ask(self, user: str, key: int, version: int, request: Any) -> Any:
        with self.user(user) as raw:
            return answer(raw, key, version, request)

    def grant(self, *some: AclCreation) -> None:
        said = self.ask("root", 30, 3, CreateAclsRequest(creations=list(some)))
        assert {each.error_code for each in said.results} == {0}

    def take(self, user: str) -> int:
        """Remove all ACLs of a user; how many there were."""
        wanted = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=f"User:{user}",
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        (said,) = self.ask("root", 31, 3, DeleteAclsRequest(filters=[wanted])).filter_results
        assert said.error_code == 0
        return len(said.matching_acls)

    def make_topic(self, name: str = TOPIC) -> None:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        said = self.ask("root", 19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=20_000)).topics[0]
        if not said.error_code and name == TOPIC:
            self.topic_id = said.topic_id

    def make_coordinators(self) -> None:
        for kind, name in ((0, GROUP), (1, TRANSACTION)):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            assert self.ask("root", 10, 6, request).coordinators[0].error_code == 0
