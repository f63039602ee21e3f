"""`ottla log`: the files of a log directory in words."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.cli.own import Command, noun

_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_NAMES = ("leader-epoch-checkpoint", "partition.metadata", "meta.properties")


def command(arguments: Sequence[str]) -> int:
    return noun("log", VERBS, arguments)


def _dump(given: Given) -> int:
    from ottla.cli.kafka.dump_log import dump

    return dump(
        [path for word in given.words for path in _files(word)],
        print_data="data" in given,
        deep="records" in given or "data" in given,
        offsets="offsets" in given,
    )


def _files(path: str) -> list[str]:
    """The file, or every file of a log that a directory holds, at any depth."""
    if not os.path.exists(path):
        raise Misuse(f"there is no {path}")
    if not os.path.isdir(path):
        return [path]
    return [
        os.path.join(directory, name)
        for directory, _, names in sorted(os.walk(path))
        for name in sorted(names)
        if name.endswith((*_SUFFIXES, "-checkpoint")) or name in _NAMES
    ]


VERBS = {
    "dump": Command(
        "ottla log dump FILE|DIRECTORY... [--records] [--data]",
        "Print segments, indexes, checkpoints and producer snapshots.",
        _dump,
        [
            Option("records", "Also the records of each batch."),
            Option("data", "Also their keys and values."),
            Option("offsets", "Decode records of __consumer_offsets."),
        ],
        words=(1, 1000),
    ),
}
