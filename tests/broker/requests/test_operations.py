"""The sets of allowed operations are what a client reads out of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from ottla.broker.requests.operations import allowed_operations
from ottla.kernel.acls import ResourceKind

ON_TOPICS = "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"
ON_THE_CLUSTER = "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
ON_GROUPS = "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"


@pytest.mark.parametrize(
    ("resource", "names"),
    [
        (ResourceKind.TOPIC, ON_TOPICS),
        (ResourceKind.CLUSTER, ON_THE_CLUSTER),
        (ResourceKind.GROUP, ON_GROUPS),
    ],
)
def test_each_bit_is_the_number_of_an_operation_in_kafkas_acls(resource: ResourceKind, names: str) -> None:
    call: Any = SimpleNamespace(node=SimpleNamespace(rights=None))
    operations = allowed_operations(call, resource)
    numbers = {number for number in range(32) if operations >> number & 1}
    assert numbers == {AclOperation[name].value for name in names.split()}
