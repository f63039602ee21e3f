"""`ottla produce`: records from arguments, files or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ottla.cli.command import Command, counted, pairs, print_json, registry_beside_cluster, unescaped, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.input.detect import FORMATS, LINES, RECORDS
from ottla.cli.input.reading import Inputs, Wishes
from ottla.cli.input.rows import Encode
from ottla.cli.input.sources import STANDARD_INPUT
from ottla.cli.input.times import UNITS
from ottla.cli.leaving import interrupted_by_signals
from ottla.cli.options import Given, Option
from ottla.cli.produce_progress import ProduceProgress
from ottla.cli.produce_sending import Outcomes, send_all_or_none, send_each
from ottla.cli.produce_words import files_among
from ottla.client.model import Header
from ottla.client.produce.run import Run
from ottla.config.profiles import DEFAULT_REGISTRY

if TYPE_CHECKING:
    from ottla.cli.produce_topic import TopicOptions
    from ottla.client.blocking.runs import RunProducer

_CODECS = "none|gzip|snappy|lz4|zstd"
_PROPERTIES = {
    "acks": "acks",
    "compression": "compression.type",
    "partitioner": "partitioner",
    "transactional-id": "transactional.id",
}
"""Options of the command that are properties of a producer. Where they are given they count more than a file's."""
_OF_INPUTS = ("input", "key-separator", "time", "time-unit", "header-field", "delimiter", "schema")


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _produce(given: Given) -> int:
    from ottla.cli.connect import client_settings, read_properties
    from ottla.cli.kafka.client_options import producer_settings
    from ottla.cli.produce_topic import topic_options
    from ottla.client.blocking.runs import RunProducer

    path = given.text("command-config")
    topic, words = _topic(given)
    paths, words = _inputs(given, words)
    _check(given, words)
    inputs = Inputs(paths, _wishes(given, topic))
    by_flags = {
        **(read_properties(path) if path else {}),
        **{name: given.need(option) for option, name in _PROPERTIES.items() if option in given},
        **pairs(given.all("property")),
    }
    bootstrap = given.need("bootstrap-server")
    options = topic_options(topic, bootstrap, by_flags) if paths else None
    defaults = {name: given.need(option) for option, name in _PROPERTIES.items() if given.text(option) is not None}
    properties = {**defaults, "batch.size": str(options.batch_bytes) if options else "131072", **by_flags}
    try:
        producer = RunProducer(bootstrap, producer=producer_settings(properties), settings=client_settings(properties))
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    outcomes = Outcomes(keep=wants_json(given))
    with interrupted_by_signals(), producer, ProduceProgress(inputs) if paths else nullcontext() as progress:
        runs = progress.over(inputs.runs()) if progress is not None else iter([_one_run(given, words)])
        send = send_all_or_none if producer.producer_settings.transactional_id is not None else send_each
        code = send(producer, topic, runs, outcomes, _Watch(producer, options).look)
    if code == 0 and wants_json(given):
        print_json([each._asdict() for each in outcomes.kept])
    elif code == 0:
        sys.stderr.write(_last_line(topic, bootstrap, outcomes, inputs))
    return code


class _Watch:
    """Looks at records before they are sent; the options of a topic that was not there are asked for again."""

    def __init__(self, producer: RunProducer, options: TopicOptions | None) -> None:
        self._producer = producer
        self._options = options

    def look(self, run: Run) -> None:
        options = self._options
        if options is None or run.timestamps is None:
            return
        if not options.is_known:
            self._producer.partitions_of(options.topic)  # makes the topic where the broker may
            options.ask()
        options.look(run)


def _last_line(topic: str, bootstrap: str, outcomes: Outcomes, inputs: Inputs) -> str:
    """The number of records, their partitions and cluster, and the inputs."""
    spread = ", ".join(f"{count} to partition {index}" for index, count in sorted(outcomes.written.items()))
    wrote = counted(outcomes.written.total(), "record")
    read = inputs.described()
    places = f" ({spread})" if spread else ""
    return f"wrote {wrote} to {topic}{places} at {bootstrap}{f', from {read}' if read else ''}\n"


def _topic(given: Given) -> tuple[str, Sequence[str]]:
    """The topic and the words: `-t TOPIC WORD...` or `TOPIC WORD...`."""
    named = given.text("topic")
    if named is None and not given.words:
        raise Misuse("which topic?")
    return (named, given.words) if named is not None else (given.words[0], given.words[1:])


def _inputs(given: Given, words: Sequence[str]) -> tuple[list[str], Sequence[str]]:
    """The inputs and the values: words are one or the other; standard input where nothing is given."""
    paths = given.all("file")
    if "values" in given and not words:
        raise Misuse("--values says that words behind the topic are values, and there are none")
    if words and "values" not in given and files_among(words):
        return [*paths, *words], []
    return paths if paths or words or "tombstone" in given else [STANDARD_INPUT], words


def _encoder(given: Given, topic: str) -> Callable[[bool], Encode]:
    def make(text: bool) -> Encode:
        from ottla.cli.schemas import encoder

        return encoder(given.need("schema"), topic, registry_beside_cluster(given), text=text)

    return make


def _wishes(given: Given, topic: str) -> Wishes:
    separator, unit = given.text("key-separator"), given.text("time-unit")
    if separator == "":
        raise Misuse("--key-separator is empty")
    if unit is not None and unit not in UNITS:
        raise Misuse(f"--time-unit is one of {', '.join(UNITS)}, not {unit}")
    found = given.text("input")
    if found is not None and found not in FORMATS:
        raise Misuse(f"--input is one of {', '.join(FORMATS)}, not {found}")
    delimiter = given.text("delimiter")
    if delimiter is not None and len(unescaped(delimiter)) != 1:
        raise Misuse(f"--delimiter is one character, not {delimiter!r}")
    return Wishes(
        common=Run([], None, _headers(given), None, given.number("partition")),
        format=found,
        key=given.text("key"),
        separator=None if separator is None else os.fsencode(unescaped(separator)),
        time=given.text("time"),
        headers=[(name, field) for name, field in pairs(given.all("header-field")).items()],
        time_unit=unit,
        delimiter=None if delimiter is None else unescaped(delimiter),
        encode=_encoder(given, topic) if "schema" in given else None,
    )


def _headers(given: Given) -> list[Header]:
    return [(name, os.fsencode(value)) for name, value in pairs(given.all("header")).items()]


def _one_run(given: Given, words: Sequence[str]) -> Run:
    """Words as values, or one record without a value."""
    key = given.text("key")
    values: list[bytes | None] = [os.fsencode(word) for word in words] or [None]
    return Run(values, None if key is None else os.fsencode(key), _headers(given), None, given.number("partition"))


def _check(given: Given, values: Sequence[str]) -> None:
    """Refuse options that would be without effect beside others."""
    found = given.text("input")
    beside = {
        "VALUE": ("tombstone", "file", *_OF_INPUTS) if values else (),
        "--tombstone": ("file", *_OF_INPUTS) if "tombstone" in given else (),
        f"--input {found}": _refused_beside(found),
        "--key-separator": ("key", "time", "header-field", "delimiter") if "key-separator" in given else (),
    }
    for one, others in beside.items():
        for other in others:
            if other in given:
                raise Misuse(f"{one} goes without --{other}, which would have no effect")
    if "time-unit" in given and "time" not in given:
        raise Misuse("--time-unit goes with --time, which names the field")
    if "registry" in given and "schema" not in given:
        raise Misuse("--registry goes with --schema, which says by which schema values are written")


def _refused_beside(found: str | None) -> tuple[str, ...]:
    """The options that mean nothing for an input of this format."""
    if found == RECORDS:
        return ("key", "key-separator", "time", "header-field", "delimiter", "schema")
    if found == LINES:
        return ("time", "header-field", "delimiter", "schema")
    return () if found is None else ("key-separator", *(() if found in ("csv", "tsv") else ("delimiter",)))


COMMAND = Command(
    "ottla produce TOPIC [FILE...|VALUE...] [-k KEY|FIELD] [--time FIELD] [-H NAME=VALUE] [-p N] [--input FORMAT]",
    "Write records: those of files, values given here, else one per line of standard input. Files hold lines, JSON "
    "lines, CSV with a header line, Avro or Parquet, and may be packed (gzip, zstd, lz4, bzip2, xz).",
    _produce,
    [
        Option("topic", "The topic, where it is not the first word.", "TOPIC", short="t"),
        Option("key", "The key of every record; the field with the key, where records have fields.", "KEY", short="k"),
        Option("key-separator", "Lines are KEY, this, VALUE.", "TEXT", short="K"),
        Option("header", "A header; may come several times.", "NAME=VALUE", short="H"),
        Option("partition", "Write to this partition.", "N", "Integer", short="p"),
        Option("file", "Read this file, - for standard input; may come several times.", "FILE", short="f"),
        Option("values", "Words behind the topic are values, even where files have such names."),
        Option(
            "input",
            "lines, jsonl (objects as values), csv, tsv, avro, parquet; json: records as `ottla consume --format json` "
            "prints them. By default as the content says.",
            "FORMAT",
        ),
        Option(
            "time", "The field with the time of a record: a number since 1970 or ISO 8601 (UTC if no zone).", "FIELD"
        ),
        Option("time-unit", "The unit of times that are numbers: s, ms, us, ns. By default by their size.", "UNIT"),
        Option("header-field", "A header from a field; may come several times.", "NAME=FIELD"),
        Option(
            "schema",
            "Write values by a schema of a registry: a file (.avsc, .proto, .json) that is registered as TOPIC-value, "
            "latest for the latest of TOPIC-value, a subject for its latest, or an id.",
            "SCHEMA",
        ),
        Option("registry", f"The registry of --schema. Default: that of the profile, or {DEFAULT_REGISTRY}.", "URL"),
        Option("delimiter", "The character between the fields of CSV.", "CHARACTER"),
        Option("tombstone", "Write one record without a value."),
        Option("compression", "How batches are compressed.", _CODECS, default="none", short="z"),
        Option("acks", "all, 1 or 0.", "ACKS", default="all"),
        Option("transactional-id", "Write all records in one transaction under this id, or none.", "ID"),
        Option(
            "partitioner",
            "murmur2 as Java's client; consistent_random as librdkafka's default; consistent, random.",
            "NAME",
            default="murmur2",
        ),
        Option("property", "A producer option of Kafka's.", "KEY=VALUE", short="X"),
    ],
    words=(0, 100_000),
)
