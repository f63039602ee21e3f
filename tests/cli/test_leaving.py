"""Commands that read in a group leave it where the output ended, however they end."""

from __future__ import annotations

import json

from tests.cli.conftest import Ottla


def committed(ottla: Ottla, group: str) -> list[int]:
    """The committed offset of each partition that the group has read; 0 where it has none."""
    (told,) = json.loads(ottla("group", "describe", group, "--format", "json").stdout)
    return [part["committed"] or 0 for part in told["partitions"]]


def filled(ottla: Ottla, name: str) -> None:
    """A topic with three records in each of two partitions."""
    ottla("topic", "create", name, "-p", "2")
    for partition in ("0", "1"):
        ottla("produce", name, "-p", partition, *(f"{partition}-{number}" for number in range(3)))


def test_a_limit_leaves_the_records_of_every_partition_to_the_next_reader(ottla: Ottla, name: str) -> None:
    filled(ottla, name)
    read: list[str] = []
    for _ in range(3):
        found = ottla("kafka-console-consumer", "--topic", name, "--group", name, "--from-beginning",
                      "--max-messages", "2", "--timeout-ms", "20000")  # fmt: skip
        assert found.returncode == 0, found.stderr
        read += found.stdout.split()
        assert sum(committed(ottla, name)) == len(read)
    assert sorted(read) == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]


def test_a_record_that_cannot_be_shown_ends_the_reading_before_the_records_behind_it(ottla: Ottla, name: str) -> None:
    filled(ottla, name)
    found = ottla("kafka-console-consumer", "--topic", name, "--group", name, "--from-beginning",
                  "--value-deserializer", "Long")  # fmt: skip
    assert found.returncode == 1
    assert "Processed a total of 1 messages" in found.stderr
    assert sum(committed(ottla, name)) == 1
