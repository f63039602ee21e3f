"""Three brokers whose leaders move: some every second, and now and then a broker stops or is killed.

`tools/compat.py` runs other people's unmodified clients against these.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType

from secured_brokers import SecuredBrokers
from three_brokers import NUMBERS, ApacheCluster, TemporaryCluster

from ottla.client.admin.replicas import Election
from ottla.client.blocking.admin import Admin
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition

THREEFOLD = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
}
_MOVE_EVERY_S = 1.0
_STAYS, _COORDINATOR_STAYS = 4, 8
"""The moves for which a leader stays, and a coordinator: one coordinator must see a member's session of 6 s end."""
_STOP_EVERY_MOVES = 12


class StoodStill(Exception):
    """Leaders did not move, or a broker did not come back, so the results prove nothing."""


class MovingLeaders:
    """A context manager; `end_of_moves` returns a summary of the moves, or raises `StoodStill`."""

    def __init__(self, cluster: TemporaryCluster | ApacheCluster, stops: tuple[int, ...]) -> None:
        self._cluster = cluster
        self._stops = stops
        self.bootstrap = ""
        self.turns = self.elected = self.restarts = self.kills = 0
        self._fault = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._move, name="moves leaders")

    @property
    def running(self) -> bool:
        """False once a broker could not be started again, or ended by itself."""
        return not self._fault

    def last_words(self) -> str:
        return self._fault

    def __enter__(self) -> MovingLeaders:
        self._cluster.__enter__()
        self.bootstrap = ",".join(self._cluster.address(number) for number in NUMBERS)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._cluster.__exit__()

    def end_of_moves(self) -> str:
        """One line about the moves, restarts and kills."""
        self._over.set()
        self._thread.join()
        stopped = (self.restarts and self.kills) or self.turns <= 2 * _STOP_EVERY_MOVES  # few tests end soon
        if self._fault or not (self.elected and stopped):
            raise StoodStill(self._fault or "no leader was elected, no broker stopped, or none killed")
        return f"{self.elected} leaders elected, {self.restarts} brokers restarted, {self.kills} killed"

    def _move(self) -> None:
        with Admin(self.bootstrap, security=self._cluster.security) as admin:
            while not self._over.wait(_MOVE_EVERY_S):
                self.turns += 1
                try:
                    if self.turns % _STOP_EVERY_MOVES:
                        self.elected += move_leaders(admin, self.turns)
                    else:
                        self._stop_one(self.turns // _STOP_EVERY_MOVES)
                except (ClientError, ApiError):
                    continue  # the broker of this request has just ended
                except Exception as error:  # end_of_moves reports it
                    self._fault = f"{type(error).__name__}: {error}"
                    return

    def _stop_one(self, turn: int) -> None:
        """Stop the brokers in turn, every other time by SIGKILL, and start each again at once."""
        number = self._stops[turn % len(self._stops)]
        if turn % 2:
            self._cluster.stop(number)
            self.restarts += 1
        else:
            self._cluster.kill(number)
            self.kills += 1
        self._cluster.start(number)


def move_leaders(admin: Admin, turn: int) -> int:
    """Move the leadership of a share of the fully replicated partitions; return how many moved."""
    wanted = {}
    for topic in admin.list_topics().values():
        for index, partition in topic.partitions.items():
            if (index + turn) % (_COORDINATOR_STAYS if topic.is_internal else _STAYS):
                continue
            if len(partition.isr) == len(partition.replicas) > 1 and partition.leader in partition.replicas:
                at = partition.replicas.index(partition.leader) + 1
                wanted[TopicPartition(topic.name, index)] = partition.replicas[at:] + partition.replicas[:at]
    if not wanted:
        return 0
    moved = admin.alter_reassignments(wanted)
    elected = admin.elect_leaders(Election.PREFERRED, [each for each, error in moved.items() if error is None])
    return sum(error is None for error in elected.values())


def ottla_moving(settings: Mapping[str, str], secured: SecuredBrokers | None = None) -> MovingLeaders:
    return MovingLeaders(TemporaryCluster({**settings, **THREEFOLD}, secured), NUMBERS)


def apache_moving(settings: Mapping[str, str], secured: SecuredBrokers | None = None) -> MovingLeaders:
    """Apache Kafka with moving leaders; its first node is the only controller, and is never stopped."""
    return MovingLeaders(ApacheCluster({**settings, **THREEFOLD}, secured), NUMBERS[1:])
