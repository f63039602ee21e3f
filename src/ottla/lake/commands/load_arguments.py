"""The options of `ottla lake load` on the command line, made from their declaration in options.py."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ottla.cli.arguments import security_beside
from ottla.client.security import Security
from ottla.config.profiles import ProfileError, bootstrap_servers
from ottla.jobs.options import JobOption, add_flag, typed
from ottla.kernel.quantities import duration_ms
from ottla.lake.commands.parser import Parser
from ottla.lake.options import OPTIONS, LoadOptions
from ottla.spark.submit import add_spark_arguments
from ottla.stores.base import LakeRefused

_ABOUT = {"values": None, "the lake": "A lake keeps these: later loads need not name them.", "reports": None}
_TIMES = ("--from", "--since", "--older-than", "--delay", "--every")
_AGO = re.compile(r"-\s*\d")


def add_verb(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Declare the verb."""
    verb = verbs.add_parser(
        "load",
        help="load topics into a lake, exactly once",
        description="Load topics into plain Parquet files (PLACE/topic=T/date=YYYY-MM-DD/T-ROUND-NUMBER.parquet), or "
        "into Delta or Iceberg tables. Go on where the last load ended, with its options where none are given. Once, "
        "unless --every or --continuous.",
    )
    verb.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all of the lake's")
    verb.add_argument("--to", required=True, metavar="PLACE", help="a path, or file:// s3:// gs:// az:// hdfs:// URL")
    when = verb.add_mutually_exclusive_group()
    when.add_argument("--every", metavar="TIME", type=_duration, help="again and again, e.g. 1m, until stopped")
    when.add_argument("--continuous", action="store_true", help="again at once, until stopped")
    groups: dict[str, argparse._ActionsContainer] = {"": verb}
    for option in OPTIONS:
        if option.group not in groups:
            groups[option.group] = verb.add_argument_group(option.group, _ABOUT[option.group])
        _add(groups[option.group], option)
    add_spark_arguments(verb)
    verb.add_argument(
        "--verbose", action="store_true", help="show what Spark and Java print, also in loads that succeed"
    )


def chosen(options: argparse.Namespace) -> tuple[LoadOptions, Security]:
    """The options of `ottla.lake.load` that were given, and the security by which to speak to the brokers.

    Where nobody names brokers, they are those that the lake knows. A new lake takes those of the environment or of the
    profile in use.
    """
    from ottla.lake.rounds.known import noted_bootstrap

    given = {option.name: getattr(options, _place(option)) for option in OPTIONS}
    security = options.security
    if given["bootstrap"] is None:
        try:
            usual = bootstrap_servers(os.environ)
        except ProfileError as fault:
            raise LakeRefused(str(fault)) from None
        if noted_bootstrap(options.to) in (None, usual.address):
            given["bootstrap"] = usual.address
            security = security if options.command_config else security_beside(usual)
    return cast("LoadOptions", {name: value for name, value in given.items() if value is not None}), security


def with_times_joined(arguments: Sequence[str]) -> list[str]:
    """`--from -1h` as `--from=-1h`: argparse takes a word with a dash for an option."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] in _TIMES and _AGO.match(word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _place(option: JobOption) -> str:
    """The name of an option among the parsed arguments; the parser looks for that of the brokers."""
    return "bootstrap_server" if option.name == "bootstrap" else option.name


def _add(group: argparse._ActionsContainer, option: JobOption) -> None:
    """Declare one option. None stands for an option that was not given."""
    if option.name == "read_committed":
        group.add_argument(
            "--read-uncommitted", dest=option.name, action="store_const", const=False,
            help="load records of open and aborted transactions, too",
        )  # fmt: skip
        group.add_argument(option.spelt, dest=option.name, action="store_const", const=True, help=argparse.SUPPRESS)
        return
    also = ("-b",) if option.name == "bootstrap" else ()
    read = _text_of if option.name == "schema" else typed(option)
    add_flag(group, option, *also, read=read, place=_place(option))


def _duration(text: str) -> str:
    try:
        if duration_ms(text):
            return text
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
    raise argparse.ArgumentTypeError("give a time above 0, or --continuous")


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise argparse.ArgumentTypeError(f"{path}: {fault}") from fault
