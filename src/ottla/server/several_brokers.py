"""`ottla start --brokers`: a broker for each core of this machine, as processes under one supervisor.

Each broker gets the options that were given, a folder in the data directory, and ports above those of the broker
before it. Topics have one replica, as with one broker: the processes share the machine, and a broker that dies comes
back with its data.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.broker.replicas.log_directories import METADATA_DIRECTORY
from ottla.config.listeners import no_room_for
from ottla.config.resolve import Layers
from ottla.coordination.sqlite import FILE_NAME
from ottla.server.broker_child import Launch
from ottla.server.cores import cores
from ottla.server.main import AS_KAFKA, beside_of
from ottla.server.supervisor import STORE, AlreadyUp, BrokerSupervisor, broker_directory, brokers_in, locked

if TYPE_CHECKING:
    from ottla.client.admin.broker_table import BrokerLine
    from ottla.client.admin.overview import ClusterOverview
    from ottla.config.resolve import StaticConfig
    from ottla.server.main import Say, StartOptions

AUTO = "auto"
_MOST = 100
_ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class CannotRun(ValueError):
    """Several brokers are not possible with these options or this directory; the text is a sentence."""


def start_several(options: StartOptions, static: StaticConfig, say: Say) -> int:
    """Run the brokers until a signal or `ottla cluster down` asks them to stop; the exit status."""
    directories = [os.path.abspath(each) for each in Layers(static.texts).broker().data_directories]
    first = int(static.texts.get("node.id", 1))
    try:
        numbers = numbers_for(options.brokers or AUTO, cores(), first, brokers_in(directories[0]))
        if (wrong := _refused(options, directories[0])) or (wrong := no_room_for(static.texts, len(numbers))):
            raise CannotRun(wrong)
    except CannotRun as fault:
        say(str(fault))
        return 2
    try:
        with locked(directories[0]):
            return asyncio.run(_run(options, static, say, directories, numbers))
    except (AlreadyUp, OSError) as fault:
        say(f"cannot start: {fault}")
        return 1


def numbers_for(text: str, core_count: int, first: int, known: Sequence[int]) -> range:
    """The numbers of the brokers that `--brokers` asks for; CannotRun where one that has data would be left out.

    `auto`: as many as there are cores, and as many as have data. `known`: the brokers that have data.
    """
    if text == AUTO:
        count = max(core_count, max(known, default=first) - first + 1)
    elif text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST:
        count = int(text)
    else:
        raise CannotRun(f"--brokers {text}: write auto ({core_count} here), or a number from 1 to {_MOST}")
    numbers = range(first, first + count)
    if left := [number for number in known if number not in numbers]:
        raise CannotRun(
            f"broker {left[-1]} has data in this directory and would be left out: give --brokers "
            f"{max(known) - min(known) + 1}" + ("" if min(known) == 1 else f" --id {min(known)}") + ", or move its "
            f"partitions away (`ottla cluster drain --broker {left[-1]}`) and remove its folder broker-{left[-1]}"
        )
    return numbers


def _refused(options: StartOptions, directory: str) -> str | None:
    """The reason why these options or this directory are not for several brokers, or None."""
    if options.memory:
        return "--memory goes with one broker: several need a data directory for what they share. Leave out one of both"
    if options.prefer_port is not None:
        return "--prefer-port goes with one broker: with --brokers give --port, and the others take the ports above"
    if os.path.exists(os.path.join(directory, "meta.properties")):
        return (
            f"{directory} is the data directory of one broker, and --brokers keeps a folder for each. Move it to be "
            f"the folder of broker 1, and start again:  mv {directory} {directory}.one && mkdir {directory} && "
            f"mv {directory}.one {broker_directory(directory, 1)}"
        )
    return None


async def _run(
    options: StartOptions, static: StaticConfig, say: Say, directories: Sequence[str], numbers: range
) -> int:
    display = _Sentences(say)

    def greet(addresses: list[str]) -> None:
        print(f"ottla {__version__} ready: {addresses[0]}", flush=True)
        if options.started_as_kafka:
            print(AS_KAFKA.format(id=numbers[0]), flush=True)
        if options.log_format == "json":
            say(f"ready: {addresses[0]}; brokers: {', '.join(addresses)}; data: {directories[0]}", logging.INFO)
        else:
            print("\n".join(_greeting(addresses, directories[0])), file=sys.stderr, flush=True)

    launches = launches_for(options, static.texts, directories, numbers)
    beside = beside_of(options)
    first = with_own_store(launches)
    supervisor = BrokerSupervisor(
        directories[0], launches, restarts=True, display=display, greet=greet, beside=beside, first=first
    )
    return await supervisor.run()


def launches_for(
    options: StartOptions, texts: Mapping[str, str], directories: Sequence[str], numbers: range
) -> list[Launch]:
    """The start of each broker: with the options that were given, in folders and on ports of its own."""
    shared = list(_shared_words(options, texts, directories[0]))
    launches = []
    for index, number in enumerate(numbers):
        own = ["--ports-above", str(index)]
        if options.http_port is not None:
            own += ["--http-port", str(options.http_port and options.http_port + index)]
        data = ",".join(broker_directory(directory, number) for directory in directories)
        launches.append(Launch(number, data, [*own, *shared]))
    return launches


def with_own_store(launches: Sequence[Launch]) -> int | None:
    """The number of a broker that was alone: it takes its metadata to the shared store, before others begin one."""
    for launch in launches:
        if os.path.exists(os.path.join(launch.data.split(",")[0], METADATA_DIRECTORY, FILE_NAME)):
            return launch.number
    return None


def _shared_words(options: StartOptions, texts: Mapping[str, str], directory: str) -> Iterable[str]:
    yield from ("--join", options.join or f"sqlite:{os.path.join(directory, STORE)}")
    for name in ("port", "listen", "config", "log_level", "log_format"):
        if (value := getattr(options, name)) is not None:
            yield from (f"--{name.replace('_', '-')}", str(value))
    if options.insecure:
        yield "--insecure"
    for text in options.set:
        yield from ("--set", text)
    for name, value in _ONE_REPLICA.items():
        if name not in texts:
            yield from ("--set", f"{name}={value}")


def _greeting(addresses: Sequence[str], directory: str) -> list[str]:
    return [
        f"  brokers   {len(addresses)}: {', '.join(addresses)}; clients may ask any of them",
        f"  data      {directory}, a folder and a log file for each broker",
        f"  try       ottla cluster status -b {addresses[0]}",
        f"            ottla topic create events --partitions {len(addresses)} -b {addresses[0]}      (one for each)",
        f"  end       Ctrl-C, or elsewhere: ottla cluster down --data {directory}",
    ]


class _Sentences:
    """Tells events in the words of `ottla start`, and shows no table."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def say(self, sentence: str) -> None:
        self._say(sentence, logging.INFO)

    def greet(self, ready: str, addresses: Sequence[str], about: Sequence[str]) -> None:
        pass

    def show(self, lines: Sequence[BrokerLine], seen: ClusterOverview | None, *, all_served: bool) -> None:
        pass

    def end(self) -> None:
        pass
