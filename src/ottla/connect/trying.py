"""`ottla connect test`: sample records on their way through a connector's chain, without a broker or the other side."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from ottla.cli.command import bad, print_json, print_table, wants_json
from ottla.cli.faults import BadInput, text_of
from ottla.cli.options import Given
from ottla.client.model import ConsumedRecord
from ottla.config.option import nearest
from ottla.config.properties import parse_properties
from ottla.connect.converters.json import JsonConverter
from ottla.connect.distributed import OF_ITS_OWN
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.validation import ValidationAnswer, validated
from ottla.connect.records import ConnectRecord, SchemaAndValue, SourceRecord
from ottla.connect.records import Header as ConnectHeader
from ottla.connect.standalone import read_connector
from ottla.connect.tasks.conversion import Conversion
from ottla.connect.tasks.secrets import Secrets
from ottla.connect.tasks.tracing import Passed, Shown, traced_in, traced_out
from ottla.jobs.json_records import compact_json

_MEMBERS: Final = (
    "topic", "partition", "offset", "timestamp", "key", "key_base64", "key_schema", "value", "value_base64",
    "value_schema", "headers",
)  # fmt: skip
_PLAIN: Final = JsonConverter({"schemas.enable": "false", "converter.type": "value"})
_WITH_SCHEMA: Final = JsonConverter({"schemas.enable": "true", "converter.type": "value"})


def try_samples(given: Given) -> int:
    """Show each record behind each step; exit status 1 if one was refused."""
    try:
        config = read_connector(given.words[0])
        worker = _worker(given.need("worker")) if "worker" in given else OF_ITS_OWN
        verdict = _checked(config)
        conversion = Conversion(worker, Secrets(worker).config(config))
    except (ConfigException, CallRefused) as fault:
        raise BadInput(str(fault)) from None
    for sentence in [*verdict.unknown, *conversion.strange]:
        sys.stderr.write(f"ottla: {sentence}\n")
    tracks = []
    for number, line in enumerate(text_of(given.need("records")).splitlines(), 1):
        if line.strip():
            tracks.append(_track(conversion, config, verdict.plugin.kind, line, number))
    if not tracks:
        raise BadInput('there is no sample record: give one JSON object a line, such as {"value": "text"}')
    if wants_json(given):
        print_json([[_as_json(each) for each in track] for track in tracks])
    else:
        for number, track in enumerate(tracks, 1):
            sys.stdout.write(f"{chr(10) * (number > 1)}record {number}: {_outcome(track)}\n")
            print_table(["STEP", "TOPIC", "KEY", "VALUE", "HEADERS"], [_row(each) for each in track])
    return int(any(track[-1].fault is not None for track in tracks))


def _worker(path: str) -> dict[str, str]:
    return {name: value.strip() for name, value in parse_properties(text_of(path)).items()}


def _checked(config: Mapping[str, str]) -> ValidationAnswer:
    verdict = validated(config, WorkerView())
    if verdict.errors:
        raise ConfigException(verdict.errors[0])
    return verdict


def _track(conversion: Conversion, config: Mapping[str, str], kind: str, line: str, number: int) -> list[Passed]:
    sample = _sample(line, number)
    topic = str(sample.get("topic") or (config.get("topics") or config.get("topic") or "sample").split(",")[0].strip())
    if kind == "source":
        return traced_out(conversion, _as_read(sample, topic, number))
    return traced_in(conversion, _as_consumed(sample, topic, number))


def _sample(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as fault:
        raise BadInput(f"sample {number} is no JSON: {fault}") from None
    if not isinstance(found, dict):
        raise BadInput(f'sample {number} is no object: write {{"value": {line.strip()}}}')
    for name in found:
        if name not in _MEMBERS:
            known = ", ".join(_MEMBERS)
            raise BadInput(f"sample {number}: no member {name!r}{nearest(name, _MEMBERS)}; there are {known}")
    for part in ("key", "value"):
        if part in found and f"{part}_base64" in found:
            raise BadInput(f"sample {number} has {part} and {part}_base64: give one of them")
    if not isinstance(found.get("headers", {}), dict):
        raise BadInput(f"sample {number}: headers is an object of text")
    for name in ("partition", "offset", "timestamp"):
        if name in found and (isinstance(found[name], bool) or not isinstance(found[name], int)):
            raise BadInput(f"sample {number}: {name} is a whole number")
    return found


def _as_read(sample: Mapping[str, Any], topic: str, number: int) -> SourceRecord:
    """The record of a source: values as they are, with a schema in JsonConverter's form where one is given."""
    key, value = (_with_schema(sample, part, number) for part in ("key", "value"))
    headers = tuple(ConnectHeader(name, None, text) for name, text in sample.get("headers", {}).items())
    place, at = sample.get("partition"), sample.get("timestamp")
    return SourceRecord(topic, place, key.schema, key.value, value.schema, value.value, at, headers)


def _with_schema(sample: Mapping[str, Any], part: str, number: int) -> SchemaAndValue:
    if f"{part}_base64" in sample:
        return SchemaAndValue(None, _bytes_of(sample, part, number))
    schema, value = sample.get(f"{part}_schema"), sample.get(part)
    if schema is None:
        return SchemaAndValue(None, value)
    try:
        return _WITH_SCHEMA.to_connect("", json.dumps({"schema": schema, "payload": value}).encode())
    except DataException as fault:
        raise BadInput(f"sample {number}: the {part} does not fit {part}_schema: {fault}") from None


def _as_consumed(sample: Mapping[str, Any], topic: str, number: int) -> ConsumedRecord:
    """The record of a topic: text as UTF-8, other values as JSON."""
    if schema := next((name for name in ("key_schema", "value_schema") if name in sample), None):
        raise BadInput(f"sample {number}: {schema} is for sources; a sink reads bytes, which its converters understand")
    headers = tuple((name, _encoded(text)) for name, text in sample.get("headers", {}).items())
    key, value = (_bytes_of(sample, part, number) for part in ("key", "value"))
    return ConsumedRecord(
        topic=topic, partition=sample.get("partition", 0), offset=sample.get("offset", number - 1),
        timestamp=sample.get("timestamp", 0), timestamp_type=0, key=key, value=value, headers=headers, leader_epoch=-1,
    )  # fmt: skip


def _bytes_of(sample: Mapping[str, Any], part: str, number: int) -> bytes | None:
    if (packed := sample.get(f"{part}_base64")) is not None:
        try:
            return base64.b64decode(packed, validate=True)
        except (ValueError, TypeError) as fault:
            raise BadInput(f"sample {number}: {part}_base64 is no Base64: {fault}") from None
    return _encoded(sample.get(part))


def _encoded(value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return compact_json(value)


def _outcome(track: list[Passed]) -> str:
    last = track[-1]
    if last.fault is not None:
        return bad(f"{last.step} refuses it: {last.fault}")
    return f"{last.step} drops it" if last.record is None else "it passes"


def _row(passed: Passed) -> list[str | None]:
    if passed.record is None:
        return [passed.step, None, None, bad(f"refused: {passed.fault}") if passed.fault else "dropped", ""]
    name = f"{passed.step} (not applied)" if passed.skipped else passed.step
    key, value = _parts(passed.record)
    headers = "; ".join(f"{header}={content}" for header, content in _headers(passed.record))
    return [name, passed.record.topic, key, value, headers]


def _as_json(passed: Passed) -> dict[str, Any]:
    made: dict[str, Any] = {"step": passed.step, "applied": not passed.skipped}
    if passed.record is not None:
        key, value = _parts(passed.record)
        record = passed.record
        made |= {"topic": record.topic, "partition": record.partition, "key": key, "value": value,
                 "headers": dict(_headers(record)), "timestamp": record.timestamp}  # fmt: skip
    return made | {"fault": None if passed.fault is None else str(passed.fault)}


def _parts(record: Shown) -> tuple[str | None, str | None]:
    if isinstance(record, ConnectRecord):
        return _text(record.key_schema, record.key), _text(record.value_schema, record.value)
    return _text(None, record.key), _text(None, record.value)


def _headers(record: Shown) -> list[tuple[str, str | None]]:
    if isinstance(record, ConnectRecord):
        return [(each.key, _text(each.schema, each.value)) for each in record.headers]
    return [(name, _text(None, content)) for name, content in record.headers]


def _text(schema: Any, value: Any) -> str | None:
    """A value for the eye: bytes as text where they are some, else as Base64; all others as JSON."""
    if value is None:
        return None
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"base64:{base64.b64encode(value).decode()}"
    try:
        made = _PLAIN.from_connect("", schema, value)
    except DataException as fault:
        return f"{type(value).__name__}, which JSON cannot show: {fault}"
    return None if made is None else made.decode()
