"""The recurring look at the clocks: this broker's, and while that one is in doubt those of the other brokers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.broker_time import BrokerTime, ToldClock
from ottla.config.describe import BROKER_CLOCK
from ottla.kernel.story import run_story
from ottla.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.metadata.state import BROKER_RESOURCE

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment
    from ottla.kernel.ids import BrokerId
    from ottla.kernel.story import Slot
    from ottla.storage.directory.directory import LogDirectory

LOOK_EVERY_MS = 10_000
_ANSWER_IN_MS = 2000
_VERSION = 4
_PURPOSE = "clock"


class ClockDirectories(Protocol):
    @property
    def online(self) -> Sequence[LogDirectory]: ...


class HostedReplicas(Protocol):
    """The replicas here: replicas/reconcile.py. A broker without any has nothing that could go early."""

    @property
    def directories(self) -> ClockDirectories: ...

    def __len__(self) -> int: ...


class ClockRounds:
    """The recurring work for one broker's time."""

    def __init__(self, around: Environment, time: BrokerTime, peers: Peers, replicas: HostedReplicas) -> None:
        self._around = around
        self._time = time
        self._peers = peers
        self._replicas = replicas
        self._asking = False
        self._begun = False

    def every_ms(self) -> int:
        """The first round comes at once: the last note may be old, and the others have not been asked."""
        first, self._begun = not self._begun, True
        return 0 if first else LOOK_EVERY_MS

    def round(self) -> None:
        self._time.look()
        self._time.note(self._replicas.directories.online)
        if self._time.needs_others and not self._asking and len(self._replicas):
            self._asking = True
            run_story(self._ask())

    def last(self) -> None:
        """Leave a note at a clean stop."""
        self._time.look()
        try:
            self._time.note(self._replicas.directories.online, at_once=True)
        except OSError as error:
            self._around.disk_failed(error)

    async def _ask(self) -> None:
        here = self._around.broker
        others = sorted(broker for broker in self._around.metadata.brokers if broker != here)
        answers: list[Slot[DescribeConfigsResponse]] = [self._question(broker) for broker in others]
        told = []
        try:
            for answer in answers:
                try:
                    found = _told(await answer)
                except OSError:
                    continue  # unreachable, or too late
                if found is not None:
                    told.append(found)
            self._time.told(told, len(others))
        finally:
            self._asking = False

    def _question(self, broker: BrokerId) -> Slot[DescribeConfigsResponse]:
        wanted = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=[BROKER_CLOCK]
        )
        return self._peers.call(broker, _PURPOSE, DescribeConfigsRequest(resources=[wanted]), _VERSION, _ANSWER_IN_MS)


def _told(response: DescribeConfigsResponse) -> ToldClock | None:
    """None from a broker that does not know the question, as an older release."""
    for result in response.results:
        for one in result.configs:
            if one.name == BROKER_CLOCK:
                try:
                    told = json.loads(one.value or "")
                    return ToldClock(
                        int(told["proven_ms"]), bool(told["witness"]), bool(told["settled"]), bool(told["calm"])
                    )
                except (ValueError, KeyError, TypeError):
                    return None
    return None
