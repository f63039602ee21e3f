"""Ways through a cluster: bootstrap, metadata, the leader of a partition, the coordinator of a group, retries.

Stories only: they await `asks`; their only clock is the one that they are given, and they touch no socket. `offsets`,
`transfer`, `admin`, `producing` and `consuming` build on this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import partial
from typing import Any, TypeVar

from ottla.client.core.attempts import Attempts
from ottla.client.core.effects import Ask, AskAll
from ottla.client.core.metadata import MetadataCache
from ottla.client.core.turns import Turns
from ottla.client.errors import (
    AWAY,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    MetadataMissing,
    NoBrokerAnswers,
    RequestTimedOut,
    may_retry,
    refused,
)
from ottla.client.model import Broker, ClientSettings, Destination, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

R = TypeVar("R")
T = TypeVar("T")

GROUP = 0
TRANSACTION = 1
_WRONG_COORDINATOR = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
UNKNOWN_TOPIC_PATIENCE_MS = 1_000
_BETWEEN_TRANSACTIONS_MS = 20
"""The first pause while the coordinator still ends the transaction before, which takes milliseconds (KAFKA-5477)."""


def parse_bootstrap(text: str | Sequence[str]) -> list[Destination]:
    """`host:port,host:port` as destinations; ValueError or TypeError names the fault."""
    parts = text.split(",") if isinstance(text, str) else text
    if not isinstance(parts, Sequence | Set) or isinstance(parts, bytes) or not all(isinstance(p, str) for p in parts):
        raise TypeError(
            f"the bootstrap address is text such as 'localhost:9092', or a list of such, not {text!r}; "
            "settings are keyword arguments"
        )
    addresses = []
    for part in (part.strip() for part in parts):
        if not part:
            continue
        address = part.rsplit("://", 1)[-1]
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"invalid bootstrap address {part!r}: write HOST:PORT, for example localhost:9092")
        addresses.append(Destination(host.strip("[]") or "localhost", int(port)))
    if not addresses:
        raise ValueError("no bootstrap address: write HOST:PORT, for example localhost:9092")
    return addresses


class ClusterPlan:
    """One cluster as one client sees it."""

    def __init__(self, bootstrap: str | Sequence[str], settings: ClientSettings, now_ms: Callable[[], float]) -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self.settings = settings
        self.now_ms = now_ms
        self.metadata = MetadataCache()
        self._coordinators: dict[tuple[int, str], Broker] = {}
        self.turns = Turns()

    def attempts(self, timeout_ms: float | None = None, *, first_pause_ms: float | None = None) -> Attempts:
        return Attempts(
            self.now_ms,
            self.settings.api_timeout_ms if timeout_ms is None else timeout_ms,
            self.settings.retry_backoff_ms if first_pause_ms is None else first_pause_ms,
            self.settings.retry_backoff_max_ms,
        )

    @property
    def _patience_ms(self) -> int:
        """The patience while no broker answers: shorter for a cluster that never has answered."""
        return self.settings.api_timeout_ms if self.metadata.brokers else self.settings.bootstrap_timeout_ms

    def candidates(self) -> list[Destination]:
        """The brokers for a request that any can answer, in the order in which they should be asked."""
        return self.turns.order(self.metadata.brokers.values(), self.bootstrap)

    async def ask_any(
        self, request: type[Any], response: type[R], build: Callable[[int], object], **limits: int | None
    ) -> R:
        """Ask one broker after the other until one answers; raises BrokerUnreachable where none does."""
        fault: ClientError | None = None
        for destination in self.candidates():
            try:
                answer: R = await Ask(destination, request, response, build, **limits)  # type: ignore[arg-type]
            except AWAY as away:
                fault = away
                self.turns.asked(destination, self.now_ms())
            else:
                self.turns.answered(destination)
                return answer
        addresses = ", ".join(str(address) for address in self.bootstrap)
        raise NoBrokerAnswers(
            f"no broker answers at {addresses} ({fault}). Start one there with `ottla start`, "
            "or give the address of another, HOST:PORT"
        )

    async def refresh(
        self, topics: Collection[str] | None = (), *, create: bool = False, patience_ms: float | None = None
    ) -> MetadataResponse:
        """Fetch metadata of these topics (none: only the brokers; None: all topics) and take it in.

        `patience_ms`: how long it is tried while no broker answers.
        """

        def build(_version: int) -> MetadataRequest:
            named = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
            return MetadataRequest(topics=named, allow_auto_topic_creation=create)

        attempts = self.attempts(self._patience_ms if patience_ms is None else patience_ms)
        while True:
            try:
                response = await self.ask_any(MetadataRequest, MetadataResponse, build, min_version=4)
            except BrokerUnreachable as fault:
                await attempts.after(fault)
            else:
                self.metadata.take(response, self.now_ms(), everything=topics is None)
                return response

    async def ensure(
        self,
        topics: Collection[str],
        *,
        create: bool = False,
        timeout_ms: float | None = None,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Return once every one of the topics is known with a leader for each partition, or `enough` is; or raise."""
        missing = self.metadata.missing(topics)
        if not missing or enough():
            return
        attempts = self.attempts(timeout_ms)
        patience = attempts if create else self.attempts(min(attempts.left_ms, UNKNOWN_TOPIC_PATIENCE_MS))
        while True:
            await self.refresh(missing, create=create)
            missing = self.metadata.missing(missing)
            if not missing or enough():
                return
            fault = self._why_missing(missing[0])
            unknown = isinstance(fault, ApiError) and fault.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await (patience if unknown else attempts).after(fault)

    async def topic(self, topic: str) -> TopicView:
        """One topic's view; raises where it does not exist."""
        await self.ensure([topic])
        return self.metadata.topics[topic]

    async def leader(self, topic: str, partition: int) -> Broker:
        """The broker that leads a partition now; others of its topic may be without a leader."""

        def led() -> bool:
            return self.metadata.is_led(topic, partition)

        if not led():
            self.metadata.doubt_unlisted([TopicPartition(topic, partition)])
            await self.ensure([topic], enough=led)
        leader = self.metadata.leader(topic, partition)
        if leader is None:
            raise _no_partition(topic, partition, self.metadata.topics[topic])
        return leader

    async def leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Broker | Exception]:
        """The leaders as one look at the metadata shows them; an error stands for one that is not there (yet).

        Metadata older than `metadata_max_age_ms` is asked for again, so that partitions that were added are found.
        """
        oldest_ms = self.now_ms() - self.settings.metadata_max_age_ms
        doubtful = {each.topic for each in partitions if not self.metadata.is_led(*each)}
        doubtful |= {each.topic for each in partitions if self.metadata.taken_ms.get(each.topic, 0.0) <= oldest_ms}
        fault: Exception | None = None
        if doubtful:
            try:
                await self.refresh(sorted(doubtful), patience_ms=0)
            except (ApiError, ClientError) as unanswered:
                fault = unanswered
        found: dict[TopicPartition, Broker | Exception] = {}
        for partition in partitions:
            leader = self.metadata.leader(*partition)
            if leader is not None and (fault is None or self.metadata.is_led(*partition)):
                found[partition] = leader
            elif fault is not None:
                found[partition] = fault
            elif self.metadata.knows([partition.topic]) and not self.metadata.is_leaderless(*partition):
                found[partition] = _no_partition(*partition, self.metadata.topics[partition.topic])
            else:
                found[partition] = self._why_missing(partition.topic)
        return found

    async def broker(self, broker_id: int) -> Broker:
        """A broker by its id; raises where no such broker lives."""
        if broker_id not in self.metadata.brokers:
            await self.refresh()
        broker = self.metadata.brokers.get(broker_id)
        if broker is None:
            alive = ", ".join(str(known) for known in sorted(self.metadata.brokers))
            raise MetadataMissing(f"there is no broker {broker_id} in the cluster; there are {alive}")
        return broker

    async def ask_controller(
        self,
        request: type[Any],
        response: type[R],
        build: Callable[[int], object],
        code_of: Callable[[R], int] = lambda _: 0,
        *,
        min_version: int = 0,
        max_version: int = 32767,
        timeout_ms: int | None = None,
    ) -> R:
        """Ask the broker that metadata names as the controller; look again where it is no longer."""
        attempts = self.attempts(timeout_ms)
        while True:
            if self.metadata.controller_id not in self.metadata.brokers:
                await self.refresh()
            controller = self.metadata.brokers.get(self.metadata.controller_id)
            where = controller.destination() if controller is not None else self.candidates()[0]
            limits = {"min_version": min_version, "max_version": max_version}
            try:
                answer: R = await Ask(where, request, response, build, **limits, timeout_ms=timeout_ms)
            except RequestTimedOut:
                self.metadata.controller_id = -1
                raise
            except (BrokerUnreachable, ConnectionLost) as away:
                fault: Exception = self._explain(away, where)
            else:
                if code_of(answer) != ErrorCode.NOT_CONTROLLER:
                    return answer
                fault = refused(ErrorCode.NOT_CONTROLLER, str(where))
            self.metadata.controller_id = -1
            await attempts.after(fault)

    async def coordinator(self, key: str, kind: int = GROUP) -> Broker:
        """The coordinator of a group (or transactional id), looked up once and kept until it proves wrong."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        attempts, patience = self.attempts(), self.attempts(self._patience_ms)
        while True:
            try:
                response = await self.ask_any(
                    FindCoordinatorRequest, FindCoordinatorResponse, lambda version: _find(version, key, kind)
                )
            except BrokerUnreachable as away:
                await patience.after(away)
                continue
            found = response.coordinators[0] if response.coordinators else response
            if found.error_code == ErrorCode.NONE:
                broker = Broker(found.node_id, found.host, found.port)
                self._coordinators[kind, key] = broker
                return broker
            await attempts.after(refused(found.error_code, f"coordinator of {key!r}", found.error_message))

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        self._coordinators.pop((kind, key), None)

    async def ask_coordinator(
        self,
        key: str,
        ask: Callable[[Destination], Ask[R]],
        code_of: Callable[[R], int],
        *,
        kind: int = GROUP,
        purpose: str = "",
        timeout_ms: float | None = None,
    ) -> R:
        """Ask the coordinator; look it up again where it moved, is loading or went away.

        Other error codes are left to the caller: the answer is returned with them in it.
        """
        attempts = self.attempts(timeout_ms)
        shortly = self.attempts(timeout_ms, first_pause_ms=_BETWEEN_TRANSACTIONS_MS)
        while True:
            broker = await self.coordinator(key, kind)
            try:
                answer = await ask(broker.destination(purpose))
            except RequestTimedOut:
                self.forget_coordinator(key, kind)  # a broker that hangs may have been replaced meanwhile
                raise
            except (BrokerUnreachable, ConnectionLost) as away:
                fault: Exception = self._explain(away, broker.destination())
            else:
                code = code_of(answer)
                if code not in _WRONG_COORDINATOR:
                    return answer
                fault = refused(code, f"group {key!r}" if kind == GROUP else f"transactional id {key!r}")
                if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    await shortly.after(fault)
                    continue
                if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    await attempts.after(fault)
                    continue
            self.forget_coordinator(key, kind)
            await attempts.after(_retriable(fault))

    async def per_leader(
        self,
        partitions: Collection[TopicPartition],
        ask: Callable[[Destination, Sequence[TopicPartition]], Ask[R]],
        read: Callable[[R], Mapping[TopicPartition, T | ApiError]],
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, T | Exception]:
        """Ask each leader for its partitions, all at once; move on with those that moved or may be tried again.

        A partition that finally failed has its error in its place.
        """
        outcome: dict[TopicPartition, T | Exception] = {}
        left = list(partitions)
        attempts = self.attempts(timeout_ms)
        while left:
            again: dict[TopicPartition, Exception] = {}
            groups = await self._by_leader(left, outcome, again)
            answers = await AskAll([ask(broker.destination(), group) for broker, group in groups.items()])
            for (broker, group), answer in zip(groups.items(), answers, strict=True):
                if isinstance(answer, Exception):
                    fault = self._explain(answer, broker.destination())
                    found: Mapping[TopicPartition, T | Exception] = dict.fromkeys(group, fault)
                else:
                    found = read(answer)
                for partition in group:
                    result = found.get(partition, _not_answered(partition))
                    if isinstance(result, Exception) and may_retry(result):
                        again[partition] = result
                    else:
                        outcome[partition] = result
            for partition in again:
                self.metadata.doubt(partition.topic)
            if again and not await attempts.pause():
                outcome.update(again)
                break
            left = list(again)
        return outcome

    async def _by_leader(
        self,
        partitions: Sequence[TopicPartition],
        outcome: dict[TopicPartition, Any],
        again: dict[TopicPartition, Exception],
    ) -> dict[Broker, list[TopicPartition]]:
        """Partitions by the broker that leads them.

        Those that do not exist go to `outcome` as errors, and those without a leader to `again`: the others do not wait
        for them.
        """
        groups: dict[Broker, list[TopicPartition]] = {}
        by_topic: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition)
        self.metadata.doubt_unlisted(partitions)
        try:
            await self.ensure(list(by_topic), enough=partial(self.metadata.knows, by_topic))
            faults: dict[str, Exception] = {}
        except (ApiError, ClientError):
            faults = await self._each(list(by_topic))
        for topic, members in by_topic.items():
            for partition in members:
                leader = self.metadata.leader(topic, partition.partition)
                if leader is not None:
                    groups.setdefault(leader, []).append(partition)
                elif topic in faults:
                    outcome[partition] = faults[topic]
                elif self.metadata.is_leaderless(*partition):
                    again[partition] = self._why_missing(topic)
                else:
                    outcome[partition] = _no_partition(topic, partition.partition, self.metadata.topics[topic])
        return groups

    async def _each(self, topics: Sequence[str]) -> dict[str, Exception]:
        """Ensure each topic by itself; return the error of each that failed."""
        faults: dict[str, Exception] = {}
        for topic in topics:
            try:
                await self.ensure([topic], timeout_ms=0, enough=partial(self.metadata.knows, [topic]))
            except BrokerUnreachable:
                raise
            except (ApiError, ClientError) as fault:
                faults[topic] = fault
        return faults

    def _why_missing(self, topic: str) -> Exception:
        view = self.metadata.topics.get(topic)
        if view is None or view.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r}",
                f"it does not exist; Admin.create_topic({topic!r}) or `ottla topic create {topic}` makes it",
            )
        if view.error:
            return refused(view.error, f"topic {topic!r}")
        without = [index for index, partition in view.partitions.items() if partition.leader < 0]
        return MetadataMissing(f"topic {topic!r} has no leader for partitions {without}")

    def _explain(self, fault: Exception, where: Destination) -> Exception:
        """Explain that the advertised address is the cause, if bootstrap led to a broker that is unreachable."""
        known = {(address.host, address.port) for address in self.bootstrap}
        if isinstance(fault, BrokerUnreachable) and (where.host, where.port) not in known:
            return BrokerUnreachable(
                f"{fault}. The cluster advertises this address ({where}); if it cannot be reached from here, "
                "set advertised.listeners on the broker; `ottla doctor` shows what a client sees"
            )
        return fault


def _find(version: int, key: str, kind: int) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return FindCoordinatorRequest(key=key, key_type=kind)


def _no_partition(topic: str, partition: int, view: TopicView) -> ApiError:
    return refused(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"{topic}-{partition}",
        f"the topic has {len(view.partitions)} partitions, 0 to {len(view.partitions) - 1}",
    )


def _not_answered(partition: TopicPartition) -> ApiError:
    return refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(partition), "the broker's answer left this partition out")


class _Moving(ClientError):
    """A coordinator that moves: try again at any of its error codes."""

    retriable = True


def _retriable(fault: Exception) -> Exception:
    return fault if may_retry(fault) else _Moving(str(fault))
