"""The one program: finds the command in a static table, imports only that one, runs it.

Commands of other floors that are not in the table register by the entry point group `ottla.commands`.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module

Command = Callable[[Sequence[str]], int | None]

COMMANDS: dict[str, tuple[str, str]] = {
    "start": ("ottla.cli.start:command", "run a broker in this process"),
    "topic": ("ottla.cli.topic:command", "create, list, describe, alter, delete topics"),
    "produce": ("ottla.cli.produce:command", "write records from standard input, arguments or a file"),
    "consume": ("ottla.cli.consume:command", "read records, alone or in a group"),
    "redrive": ("ottla.cli.redrive:command", "send dead letters back to the topics that they came from"),
    "group": ("ottla.cli.group:command", "list, describe, reset, delete consumer groups"),
    "transaction": ("ottla.cli.transaction:command", "list and describe transactions, find and end those that hang"),
    "features": ("ottla.cli.features:command", "show, raise and lower the levels of the cluster's features"),
    "secure": ("ottla.cli.secure:command", "make a folder with certificates and users, and keep it up to date"),
    "acl": ("ottla.cli.acl:command", "list, grant, revoke and test who may do what"),
    "quota": ("ottla.cli.quota:command", "list, set and unset the rates that clients may have"),
    "audit-log": ("ottla.cli.audit_log:command", "check that an audit log is as brokers wrote it"),
    "token": ("ottla.cli.token:command", "make, renew, expire and list delegation tokens"),
    "user": ("ottla.cli.user:command", "list, add and remove users with passwords"),
    "config": ("ottla.cli.config:command", "read and change configurations of topics, brokers, groups"),
    "clock": ("ottla.cli.clock:command", "show what time it is by each broker, and accept a clock that is in doubt"),
    "log": ("ottla.cli.log:command", "print the files of a log directory"),
    "doctor": ("ottla.cli.doctor:command", "explain what a client sees"),
    "cluster": ("ottla.cli.cluster:command", "run several brokers on this machine; look at and move what they hold"),
    "sizing": ("ottla.cli.sizing:command", "tell how many brokers a load needs"),
    "lake": ("ottla.lake.commands.load:command", "load topics into a lake: files, Delta, Iceberg"),
    "audit": ("ottla.lake.commands.audit:command", "check that a lake is complete"),
    "connect": ("ottla.connect.command:command", "run connectors; make, watch and change those of a worker"),
    "mirror": ("ottla.mirror.command:command", "copy topics and groups from cluster to cluster, as MirrorMaker 2"),
    "backup": ("ottla.backup.command:command", "back a cluster up, online, to a directory or an object store"),
    "restore": ("ottla.backup.restore_command:command", "restore a backup into an empty cluster"),
    "streams": ("ottla.streams.command:command", "run and show topologies of Kafka Streams' operations"),
    "console": ("ottla.console.command:command", "look at a cluster in the browser, and change it"),
    "pipeline": ("ottla.pipeline.command:command", "check, plan, run and draw a pipeline that one file declares"),
    "registry": ("ottla.cli.registry:command", "run a schema registry"),
    "profile": ("ottla.cli.profile:command", "give addresses of clusters and registries a name"),
    "schema": ("ottla.cli.schema:command", "list, show, register, check, compare schemas of a registry"),
    "service": ("ottla.cli.service:command", "write systemd units for the broker, the registry, Connect"),
    "sim": ("ottla.cli.sim:command", "run the broker in simulated time from a seed"),
    "completion": ("ottla.cli.completion:command", "print a script by which bash, zsh or fish completes ottla"),
    "shims": ("ottla.cli.shims:command", "write executables with the names of Kafka's tools"),
}

KAFKA_TOOLS: dict[str, tuple[str, str]] = {
    "kafka-topics": ("ottla.cli.kafka.topics:command", "topics"),
    "kafka-console-producer": ("ottla.cli.kafka.console_producer:command", "lines of standard input into a topic"),
    "kafka-console-consumer": ("ottla.cli.kafka.console_consumer:command", "records of a topic to standard output"),
    "kafka-consumer-groups": ("ottla.cli.kafka.consumer_groups:command", "consumer groups"),
    "kafka-groups": ("ottla.cli.kafka.groups:command", "groups of all kinds"),
    "kafka-configs": ("ottla.cli.kafka.configs:command", "configurations"),
    "kafka-client-metrics": ("ottla.cli.kafka.client_metrics:command", "metrics that clients push"),
    "kafka-get-offsets": ("ottla.cli.kafka.get_offsets:command", "offsets of partitions"),
    "kafka-delete-records": ("ottla.cli.kafka.delete_records:command", "records below an offset"),
    "kafka-log-dirs": ("ottla.cli.kafka.log_dirs:command", "log directories"),
    "kafka-reassign-partitions": ("ottla.cli.kafka.reassign_partitions:command", "replicas from broker to broker"),
    "kafka-leader-election": ("ottla.cli.kafka.leader_election:command", "other leaders of partitions"),
    "kafka-transactions": ("ottla.cli.kafka.transactions:command", "transactions, and ending those that hang"),
    "kafka-features": ("ottla.cli.kafka.features:command", "features and their levels"),
    "kafka-cluster": ("ottla.cli.kafka.cluster:command", "the cluster's id and its brokers"),
    "kafka-dump-log": ("ottla.cli.kafka.dump_log:command", "segment files"),
    "kafka-broker-api-versions": ("ottla.cli.kafka.api_versions:command", "API versions"),
    "kafka-acls": ("ottla.cli.kafka.acls:command", "who may do what"),
    "kafka-producer-perf-test": ("ottla.cli.kafka.producer_perf:command", "a producer's speed"),
    "kafka-consumer-perf-test": ("ottla.cli.kafka.consumer_perf:command", "a consumer's speed"),
}

_NOT_THERE = {
    "kafka-delegation-tokens": "`ottla token` makes, renews, expires and lists delegation tokens",
    "kafka-metadata-quorum": "there is no KRaft quorum; `ottla cluster status` shows the brokers",
    "kafka-share-groups": "ottla has no share groups",
    "kafka-streams-groups": "ottla has no streams groups",
    "kafka-storage": "a data directory needs no formatting; `ottla start` makes it",
    "kafka-server-start": "`ottla start --config server.properties` starts a broker",
    "kafka-server-stop": "SIGTERM or Ctrl-C stops a broker, `ottla cluster down` a cluster on one machine",
    "connect-standalone": "`ottla connect start WORKER.properties CONNECTOR.properties` runs connectors",
    "connect-distributed": "`ottla connect start WORKER.properties` runs a worker of a group",
    "connect-mirror-maker": "`ottla mirror start mm2.properties` mirrors clusters",
}
"""Apache Kafka's scripts for things that ottla lacks or does otherwise."""

_SIGNALLED = 128
_MISUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the result is its exit code."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals that lack a character, as stderr has it
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else "--help"
    if name in ("-h", "--help", "help"):
        return run(lambda _: print(overview(), end=""), ())
    if name in ("-V", "--version", "version"):
        from ottla import __version__

        return run(lambda _: print(f"ottla {__version__}"), ())
    tool = name.removesuffix(".sh")
    where = COMMANDS.get(name) or KAFKA_TOOLS.get(tool)
    command = _load(where[0]) if where else _registered(name)
    if command is None:
        return _unknown(name)
    return run(command, given[1:])


def _open_what_is_closed() -> None:
    """Standard streams that the parent has closed lead nowhere: else the first socket would take their place."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) < 2:
            pass
        sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115
        sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115


def run(command: Command, arguments: Sequence[str]) -> int:
    """Run a command. Errors that users can mend are one line on stderr with exit code 1; 2 for a wrong argument."""
    from ottla.cli.faults import explain

    try:
        code = command(arguments)
        sys.stdout.flush()
        return code or 0
    except KeyboardInterrupt as fault:
        warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # the signal came before its first step
        _finish_output()
        return _SIGNALLED + getattr(fault, "number", signal.SIGINT)
    except BrokenPipeError:
        _finish_output()
        return 0
    except SystemExit:
        _finish_output()
        raise
    except Exception as fault:
        text = explain(fault)
        if text is None:
            raise
        _finish_output()
        sys.stderr.write(text + "\n")
        from ottla.config.option import ConfigError  # a value that Kafka's tools let the broker refuse: exit code 1

        return _MISUSED if isinstance(fault, ValueError) and not isinstance(fault, ConfigError) else 1


def _finish_output() -> None:
    """Write what is left; where nobody takes it, leave it out, or Python would complain of it at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def overview() -> str:
    """The text of `ottla --help`."""
    width = max(map(len, [*COMMANDS, *KAFKA_TOOLS]))
    lines = ["usage: ottla COMMAND [OPTIONS]", "", "commands (ottla COMMAND --help tells more):"]
    lines += [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    lines += ["", "Kafka's tools, with their own flags and output:"]
    lines += [f"  {name:<{width}}  {about}" for name, (_, about) in KAFKA_TOOLS.items()]
    lines += [
        "",
        "Most commands take -b/--bootstrap-server HOST:PORT (default: that of `ottla profile`, or localhost:9092) and",
        "--format json|text.",
    ]
    return "\n".join(lines) + "\n"


def _load(where: str) -> Command | None:
    module, _, attribute = where.partition(":")
    try:
        found: Command = getattr(import_module(module), attribute)
    except ModuleNotFoundError as fault:
        if fault.name is not None and (module == fault.name or module.startswith(fault.name + ".")):
            return None
        raise
    return found


def _registered(name: str) -> Command | None:
    """A command by entry point: what other packages add to the program."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="ottla.commands"):
        if entry.name == name:
            found: Command = entry.load()
            return found
    return None


def _unknown(name: str) -> int:
    from ottla.cli.options import nearest_word

    near = nearest_word(name, [*COMMANDS, *KAFKA_TOOLS])
    if name.startswith("-"):
        sentence = f"the command comes first, {name} behind it, as in `ottla topic list -b HOST:PORT`."
    elif name.removesuffix(".sh") in _NOT_THERE:
        sentence = f"there is no {name}: {_NOT_THERE[name.removesuffix('.sh')]}."
    elif near:
        sentence = f"there is no command {name!r}. Did you mean `ottla {near}`?"
    else:
        sentence = f"there is no command {name!r}. `ottla --help` lists the commands."
    sys.stderr.write(f"ottla: {sentence}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
