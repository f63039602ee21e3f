"""The sets of allowed operations are what a client reads out of them."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation

from ottla.broker.requests.operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS

ON_TOPICS = "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"
ON_THE_CLUSTER = "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
ON_GROUPS = "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"


@pytest.mark.parametrize(
    ("operations", "names"),
    [(TOPIC_OPERATIONS, ON_TOPICS), (CLUSTER_OPERATIONS, ON_THE_CLUSTER), (GROUP_OPERATIONS, ON_GROUPS)],
)
def test_each_bit_is_the_number_of_an_operation_in_kafkas_acls(operations: int, names: str) -> None:
    numbers = {number for number in range(32) if operations >> number & 1}
    assert numbers == {AclOperation[name].value for name in names.split()}
