"""`ottla doctor`: checks step by step what a client sees, with a remedy for each fault."""

from __future__ import annotations

import datetime
import platform
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.cli import doctor_security
from ottla.cli.command import Command, bad, counted, dim, good, print_json, wants_json
from ottla.cli.connect import client_settings, read_properties
from ottla.cli.doctor_clock import findings
from ottla.cli.doctor_disks import troubles
from ottla.cli.doctor_security import SecurityFinding
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.cli.waiting import LeaderlessPartition, waiting_partitions
from ottla.client.admin.troubles import record_decoders, replica_troubles
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster, Connection
from ottla.client.core.link import KEYS as API_KEYS
from ottla.client.core.plan import parse_bootstrap
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.client.admin.troubles import ReplicaTrouble
    from ottla.client.model import Broker, ClientSettings, Destination, TopicView


class DoctorReport:
    """The findings: each line fine, wrong (with what to do) or for information."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []

    def fine(self, text: str) -> None:
        self.lines.append(("ok", text, ""))

    def wrong(self, text: str, advice: str = "") -> None:
        self.lines.append(("wrong", text, advice))

    def note(self, text: str) -> None:
        self.lines.append(("note", text, ""))

    def add(self, found: Iterable[SecurityFinding]) -> None:
        for one in found:
            if one.advice:
                self.wrong(one.what, one.advice)
            else:
                self.fine(one.what)

    @property
    def healthy(self) -> bool:
        return all(kind != "wrong" for kind, _, _ in self.lines)

    def write(self) -> None:
        marks = {"ok": good("ok   "), "wrong": bad("WRONG"), "note": dim("     ")}
        for kind, text, advice in self.lines:
            sys.stdout.write(f"{marks[kind]} {text}\n")
            if advice:
                sys.stdout.write(f"      {advice}\n")


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _doctor(given: Given) -> int:
    report = DoctorReport()
    path = given.text("command-config")
    settings = client_settings(read_properties(path) if path else {})
    report.note(f"this command: ottla {__version__}, Python {platform.python_version()}")
    if (config := given.text("config")) is not None:
        report.add(doctor_security.of_file(config, _now()))
        if given.origin != "-b":
            return _end(given, report)
    try:
        addresses = parse_bootstrap(given.need("bootstrap-server"))
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    reached = [address for address in addresses if _try(address, settings, report)]
    if reached:
        _look_at_cluster(given.need("bootstrap-server"), settings, reached, report)
    return _end(given, report)


def _end(given: Given, report: DoctorReport) -> int:
    if wants_json(given):
        print_json(
            {
                "healthy": report.healthy,
                "lines": [{"kind": kind, "text": text, "advice": advice} for kind, text, advice in report.lines],
            }
        )
    else:
        report.write()
    return 0 if report.healthy else 1


def _try(address: Destination, settings: ClientSettings, report: DoctorReport) -> bool:
    """Resolve, connect, exchange versions."""
    try:
        found = sorted({each[4][0] for each in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)})
    except OSError as fault:
        report.wrong(
            f"bootstrap {address}: the name does not resolve ({fault})", "check the spelling, or use an IP address"
        )
        return False
    started = time.monotonic()
    try:
        connection = Connection(address.host, address.port, settings=settings)
    except (ClientError, ApiError) as fault:
        report.wrong(
            f"bootstrap {address} ({', '.join(map(str, found))}): {fault}",
            "is a broker running there? `ottla start` starts one on localhost:9092",
        )
        return False
    took = (time.monotonic() - started) * 1000
    report.fine(f"bootstrap {address} ({', '.join(map(str, found))}): connected, versions exchanged in {took:.0f} ms")
    asked_by_clients = {name: key for name, key in API_KEYS.items() if not APIS[key].peers_only}
    missing = [name for name, key in asked_by_clients.items() if key not in connection.api_versions]
    report.note(f"the broker serves {len(connection.api_versions)} APIs")
    if missing:
        report.note(f"it does not serve {', '.join(missing)}")
    if (tls := connection.tls()) is not None:
        report.add(doctor_security.of_connection(f"bootstrap {address}", *tls, _now()))
    connection.close()
    return True


def _look_at_cluster(
    bootstrap: str, settings: ClientSettings, reached: Sequence[Destination], report: DoctorReport
) -> None:
    with Cluster(bootstrap, settings=settings) as cluster:
        try:
            topics = cluster.topics()
        except (ClientError, ApiError) as fault:
            report.wrong(f"metadata: {fault}")
            return
        metadata = cluster.plan.metadata
        size = f"{counted(len(metadata.brokers), 'broker')}, {counted(len(topics), 'topic')}"
        report.fine(f"cluster {metadata.cluster_id}: {size}")
        for broker in metadata.brokers.values():
            _look_at_broker(broker, settings, reached, report)
        for what, advice in troubles(cluster):
            report.wrong(what, advice)
        report.add(doctor_security.of_brokers(cluster))
        for one in findings(cluster):
            if one.wrong:
                report.wrong(one.what, one.advice)
            else:
                report.note(one.what + (f": {one.advice}" if one.advice else ""))
        for number, decoder in cluster.run(record_decoders(cluster.plan, list(metadata.brokers))).items():
            report.note(f"broker {number} reads records: {decoder}")
        told = cluster.run(replica_troubles(cluster.plan, list(metadata.brokers)))
        _say_troubles(told, report)
        _look_at_leaderless(cluster, topics.values(), told, bootstrap, report)
        behind = sum(
            len(partition.isr) < len(partition.replicas)
            for topic in topics.values()
            for partition in topic.partitions.values()
        )
        if behind:
            report.wrong(
                f"{counted(behind, 'partition')} with replicas that are not in sync",
                "look at the brokers that are missing",
            )


_LEAST_LOSS = (
    "with another replica in sync it is fetched again: start that broker. The only replica: stop its broker and mend "
    "the file (its mode, room, or the file from a backup of this folder); else read on behind the offsets that are "
    "refused. Do not delete the folder (docs/guide/operations.md, 'Damage and remedies')"
)


def _say_troubles(told: Sequence[ReplicaTrouble], report: DoctorReport) -> None:
    """Report troubles of the brokers' own replicas, and folders that they have set aside."""
    for one in told:
        if one.set_aside:
            report.note(f"broker {one.broker} has set {one.path} aside: {one.reason} (see `ottla log strays`)")
        elif one.is_directory:
            report.wrong(f"broker {one.broker}: log directory {one.path}: {one.reason}", one.advice)
        else:
            report.wrong(
                f"{one.partition} on broker {one.broker} ({one.path}): {one.reason}", one.advice or _LEAST_LOSS
            )


def _look_at_leaderless(
    cluster: Cluster, topics: Iterable[TopicView], told: Sequence[ReplicaTrouble], bootstrap: str, report: DoctorReport
) -> None:
    """Report why partitions have no leader.

    They wait for an administrator, their brokers are down, or the brokers are up and cannot serve their replicas.
    """
    leaderless = {
        TopicPartition(topic.name, index): partition
        for topic in topics
        for index, partition in topic.partitions.items()
        if partition.leader < 0
    }
    for one in _waiting(cluster, {place.topic for place in leaderless}):
        report.wrong(one.why, one.advice(bootstrap))
        leaderless.pop(TopicPartition(one.topic, one.partition), None)
    alive, troubled = cluster.plan.metadata.brokers, {one.partition for one in told if not one.set_aside}
    down = [
        str(place)
        for place, partition in leaderless.items()
        if place not in troubled and any(broker not in alive for broker in partition.replicas)
    ]
    unserved = [str(place) for place in leaderless if str(place) not in down]
    if down:
        report.wrong(f"without a leader: {', '.join(down[:10])}", "their brokers are down: start them")
    if unserved:
        report.wrong(
            f"without a leader: {', '.join(unserved[:10])}",
            "brokers of theirs are up, and cannot serve what they hold: their WARNINGs say why, and lines above as far "
            "as they are known here",
        )


def _waiting(cluster: Cluster, topics: set[str]) -> list[LeaderlessPartition]:
    """Partitions of these topics that no start of a broker helps; none on brokers that cannot tell."""
    try:
        return waiting_partitions(Admin(cluster=cluster).describe_topics(topics)) if topics else []
    except (ClientError, ApiError):
        return []


def _look_at_broker(
    broker: Broker, settings: ClientSettings, reached: Sequence[Destination], report: DoctorReport
) -> None:
    """Check that the addresses that the cluster advertises can be reached from here."""
    advertised = f"broker {broker.id} advertises {broker.host}:{broker.port}"
    try:
        connection = Connection(broker.host, broker.port, settings=settings)
    except (ClientError, ApiError) as fault:
        known = ", ".join(map(str, reached))
        report.wrong(
            f"{advertised}: {fault}",
            f"you reached {known}, but clients go on to the advertised address: "
            "set advertised.listeners on the broker to an address that works from here",
        )
        return
    connection.close()
    same = any(_is_same(address, broker) for address in reached)
    report.fine(f"{advertised}: reachable{'' if same else ' (another address than the one you gave)'}")


def _is_same(address: Destination, broker: Broker) -> bool:
    """True if both lead to the same port of the same machine, by their names or by what the names resolve to."""
    if address.port != broker.port:
        return False
    return address.host == broker.host or not _resolved(address.host).isdisjoint(_resolved(broker.host))


def _resolved(host: str) -> set[str]:
    try:
        return {str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return set()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


COMMAND = Command(
    "ottla doctor [-b HOST:PORT] [--config FILE]",
    "Explain what a client sees of a cluster, and what is wrong with it.",
    _doctor,
    [
        Option(
            "config", "A server.properties: say what is open, weak or expires. With -b look at the cluster too.", "FILE"
        )
    ],
)
