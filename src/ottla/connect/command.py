"""`ottla connect`: runs connectors."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import BOOTSTRAP, COMMAND_CONFIG, Command, noun
from ottla.cli.connect import read_properties
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option
from ottla.config.profiles import ChosenAddress, bootstrap_servers
from ottla.connect.commands.asking import CallFailed
from ottla.connect.commands.new_plugin import VERB as NEW_PLUGIN
from ottla.connect.commands.verbs import VERBS as OVER_HTTP

_HIGHEST_PORT = 65535

if TYPE_CHECKING:
    from ottla.connect.standalone import Standalone
    from ottla.connect.worker import WorkerSettings


def command(arguments: Sequence[str]) -> int:
    try:
        return noun("connect", VERBS, arguments)
    except CallFailed as fault:
        sys.stdout.flush()
        sys.stderr.write(f"ottla: {fault}\n")
        return 1


def _start(given: Given) -> int:
    from ottla.connect.errors import ConfigException
    from ottla.connect.standalone import is_alone, read_connector, read_worker

    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    alone = sorted({"bootstrap-server", "command-config", "port"} & given.values.keys())
    if given.words and alone:
        raise Misuse(f"--{alone[0]} goes without a worker's file, which says that itself")
    if (port := given.count("port")) > _HIGHEST_PORT:
        raise Misuse(f"--port {port} is not a port: ports are 0 to {_HIGHEST_PORT}")
    try:
        if not given.words or (len(given.words) == 1 and not is_alone(given.words[0])):
            from ottla.connect.distributed import read_settings, serve

            settings = read_settings(given.words[0]) if given.words else _without_file(given, port)
            return asyncio.run(serve(settings, with_parent="with-parent" in given))
        worker_path, *paths = given.words
        return asyncio.run(_run_alone(read_worker(worker_path), [read_connector(path) for path in paths]))
    except ConfigException as fault:
        raise BadInput(str(fault)) from None


def _test(given: Given) -> int:
    from ottla.connect.trying import try_samples

    return try_samples(given)


def _without_file(given: Given, port: int) -> WorkerSettings:
    """The settings of a worker by the command line, or by the profile in use."""
    from ottla.connect.distributed import settings_for

    asked, config = given.text("bootstrap-server"), given.text("command-config")
    chosen = ChosenAddress(asked, "-b", "") if asked else bootstrap_servers(os.environ, None)
    client = read_properties(path) if (path := config or chosen.command_config) else {}
    return settings_for((None if asked else config and client.get("bootstrap.servers")) or chosen.address, port, client)


async def _run_alone(worker: Mapping[str, str], configs: Sequence[Mapping[str, str]]) -> int:
    """Run connectors, with a REST interface where the worker's file names listeners."""
    from ottla.connect.rest.app import ConnectApp
    from ottla.connect.rest.listener import address_of, caller_rights, context_of, guarded, judging
    from ottla.connect.standalone import Standalone
    from ottla.connect.tasks.clients import client_of
    from ottla.web.server import listening, serving

    if not worker.get("listeners"):
        if not configs:
            raise BadInput(
                "there is nothing to run: name the files of connectors, or set listeners for a REST interface"
            )
        standalone = Standalone(worker, configs)
        _stop_on_signals(standalone)
        print(f"ottla connect: running {', '.join(standalone.task_names)}; Ctrl-C ends it", file=sys.stderr, flush=True)
        return await standalone.run()
    address, context = address_of(worker), context_of(worker)
    with listening(address.host, address.port) as bound:
        worker_id = f"{address.shown}:{bound.getsockname()[1]}"
        standalone = Standalone(worker, configs, worker_id)
        _stop_on_signals(standalone)
        async with judging(caller_rights(worker, *client_of(worker))) as caller_of:
            app = ConnectApp(standalone, caller_of)
            standalone.owning.set_level = app.loggers.set
            async with serving(guarded(app, worker), bound, ssl_context=context):
                print(f"ottla connect ready: {address.scheme}://{worker_id} alone; Ctrl-C ends it", flush=True)
                return await standalone.serve()


def _stop_on_signals(standalone: Standalone) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, standalone, number)


def _stop(standalone: Standalone, number: int) -> None:
    """A second signal ends the process at once."""
    asyncio.get_running_loop().remove_signal_handler(number)
    print("ottla connect: stopping; what was read is delivered first", file=sys.stderr, flush=True)
    standalone.stop()


VERBS = {
    "start": Command(
        "ottla connect start [WORKER.properties [CONNECTOR.properties ...]]",
        "Run connectors in this process, as Kafka's connect-standalone does.\n\n"
        "The files are Kafka's: one of the worker, one for each connector, which may be JSON too. Connectors read from "
        "elsewhere into topics, or write records of topics elsewhere. Offsets are kept in the worker's "
        "offset.storage.file.filename. A task that fails for a reason that may pass is begun again; the exit status is "
        "1 where one has failed for good and all have ended. With listeners in the worker's file it serves Kafka's "
        "REST interface, and runs until it is stopped.\n\n"
        "Without a connector's file the worker is one of a group, as Kafka's connect-distributed: connectors, offsets "
        "and states are in three topics, and calls over HTTP change them, such as those of `ottla connect create`. "
        "Without any file it is such a worker on this machine, with the values of Kafka's example.",
        _start,
        [
            BOOTSTRAP,
            COMMAND_CONFIG,
            Option(
                "port",
                "Without a file: the port of its REST interface; 0 takes a free one.",
                "N",
                "Integer",
                default="8083",
            ),
            Option("with-parent", "End when standard input does.", hidden=True),
        ],
        words=(0, 1000),
        has_json=False,
        connects=False,
    ),
    **OVER_HTTP,
    "new-plugin": NEW_PLUGIN,
    "test": Command(
        "ottla connect test FILE",
        "Send sample records through the chain of a connector, and show each step.\n\n"
        "No broker and no other side is asked: the converters, transformations and predicates of the file work alone. "
        "Samples are JSON objects, one a line, with topic, partition, offset, timestamp, key, value and headers; "
        "key_base64 and value_base64 hold bytes. A sink takes text as UTF-8 and other values as JSON, as bytes of its "
        "topic. A source takes values as they are; key_schema and value_schema are schemas as JsonConverter writes "
        "them. The exit status is 1 where a record is refused.",
        _test,
        [
            Option("records", "The file with the samples; - reads standard input.", "FILE|-", default="-"),
            Option("worker", "A worker's properties, for its converters. Default: JsonConverter.", "FILE"),
        ],
        words=(1, 1),
        connects=False,
    ),
}
