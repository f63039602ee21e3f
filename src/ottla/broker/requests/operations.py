"""The operations that answers name as allowed (KIP-430): every one, since nothing is forbidden to a client yet.

Each set of operations is a number: bit n stands for operation n of Kafka's ACLs.
"""

from __future__ import annotations

TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs."""
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite."""
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, Delete, Describe, DescribeConfigs, AlterConfigs."""
