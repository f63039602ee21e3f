"""`kafka-dump-log`: what segment, index and snapshot files hold."""

from __future__ import annotations

from collections.abc import Sequence


def command(arguments: Sequence[str]) -> int:
    from ottla.storage.dump import kafka_command

    return kafka_command(arguments)
